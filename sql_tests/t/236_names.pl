# Which address a server's name stands for, and who looks it up: gateway.md section 7, fail_P73.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use InferTest;
use InferProc;
use InferTls;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $folder = PostgreSQL::Test::Utils::tempdir;
my ($hosts, $lookups) = ("$folder/hosts", "$folder/lookups");

# Two servers at one port of two addresses of this machine: where pool.test stands, and will stand.
my $first = InferTest::Mock->new('base_ms=1');
my ($port) = $first->url =~ /:(\d+)$/;
my $second = InferTest::Mock->new('-a', '127.0.0.2', '-p', $port, 'base_ms=1');

sub point
{
	my ($pool) = @_;
	open(my $out, '>', "$hosts.new") or die $!;
	print $out "pool.test $pool\nsecure.test 127.0.0.1\nmeta.test 169.254.169.254\n";
	close $out;
	rename "$hosts.new", $hosts or die $!;
	return;
}
point('127.0.0.1');

my $node = PostgreSQL::Test::Cluster->new('names');
$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_inference'
	pg_inference.probe_interval = '200ms'\n");
{
	local $ENV{LD_PRELOAD} = InferProc::build_slow_dns($folder);
	local $ENV{DNS_HOSTS} = $hosts;
	local $ENV{DNS_LOG} = $lookups;
	$node->start;
}
sub ask { return $node->safe_psql('postgres', join('', @_)); }
sub server { return ask("SELECT $_[1] FROM infer.stat_servers WHERE server = '$_[0]'"); }
my $gateway = ask(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'pg_inference gateway'});

# Who has looked up the name since: process numbers, in order.
my $forgotten = 0;
sub lines
{
	open(my $in, '<', $lookups) or return;
	my @lines = <$in>;
	return @lines;
}
sub lookups
{
	my ($name) = @_;
	my @lines = lines();
	return map { /^\Q$name\E (\d+)/ ? $1 : () } @lines[ $forgotten .. $#lines ];
}
sub forget { $forgotten = () = lines(); return; }
sub others { return scalar grep { $_ != $gateway } lookups($_[0]); }
sub served { my ($mock) = @_; my $n = $mock->stat('requests'); $mock->reset; return $n; }
sub probed
{
	my ($mock, $n) = @_;
	my $before = $mock->stat('probes');
	return InferTest::wait_until(30, sub { $mock->stat('probes') >= $before + $n });
}
my $n = 0;
sub call
{
	my ($server, $options) = @_;
	return ask(sprintf q{SELECT coalesce((infer.try_complete('%s/m', 'x%d', options => '%s')).reason, 'good')},
		$server, ++$n, $options // '{}');
}

ask(qq{CREATE EXTENSION pg_inference;
	CREATE SERVER pool FOREIGN DATA WRAPPER pg_inference OPTIONS (url 'http://pool.test:$port/v1');
	CREATE SERVER meta FOREIGN DATA WRAPPER pg_inference OPTIONS (url 'http://meta.test:$port/v1');});

# ----------------------------------------------------------------------------------------------
# gw_7: names are looked up by the gateway, for all sessions.

is(call('pool'), 'good', 'the first call');
ok(probed($first, 2), 'it is probed');
is(server('pool', 'address'), '127.0.0.1', 'gw_7: its address is known');
forget();
is(call('pool'), 'good', 'gw_7: a session') foreach 1 .. 5;
is(scalar(lookups('pool.test')), 0, 'gw_7: nobody looks up what is known, neither sessions nor the gateway');
is(served($first), 6, 'gw_7: all go to the address');

# fail_P73: a slow answer is no reason to look the name up again.
point('127.0.0.2');
$first->set('base_ms=2000');
is(call('pool', '{"timeout": "300ms", "max_attempts": 1}'), 'timeout', 'fail_P73: a slow answer') foreach 1 .. 3;
$first->set('base_ms=1');
ok(probed($first, 2), 'fail_P73: it is probed where it was');
is(call('pool'), 'good', 'fail_P73: and called there');
is(scalar(lookups('pool.test')), 0, 'fail_P73: after a slow answer a name is not looked up');
is($second->stat('requests'), 0, 'fail_P73: so nobody goes where it stands now');

# fail_P73: a connection that cannot be made is one.
$first->stop;
is(call('pool', '{"max_attempts": 20}'), 'good', 'fail_P73: nobody is there any more, and the call goes on');
is($second->stat('requests'), 1, 'fail_P73: to where the name stands now');
cmp_ok(scalar(lookups('pool.test')), '>=', 1, 'fail_P73: which somebody has looked up');
ok(probed($second, 2), 'fail_P73: the gateway probes there, too');
forget();
is(call('pool'), 'good', 'fail_P73: from then on');
is(scalar(lookups('pool.test')), 0, 'fail_P73: it is known again');

# ----------------------------------------------------------------------------------------------
# gw_7: it is looked up when it is old, although all is well.

$first = InferTest::Mock->new('-p', $port, 'base_ms=1');
point('127.0.0.1');
forget();
$node->append_conf('postgresql.conf', "pg_inference.dns_ttl = '1s'");
$node->reload;
ok(probed($first, 2), 'gw_7: an old address is looked up anew');
is(others('pool.test'), 0, 'gw_7: by the gateway alone');
served($second);
is(call('pool'), 'good', 'gw_7: and used');
is(served($first) . ' ' . served($second), '1 0', 'gw_7: by sessions as well');

# fail_P73: a session that finds nobody there has the gateway look it up, however long its interval.
$node->append_conf('postgresql.conf', "pg_inference.dns_ttl = '1min'\npg_inference.probe_interval = '1h'");
$node->reload;
ok(InferTest::wait_until(30, sub { server('pool', q{next_probe > now() + interval '10 min'}) eq 't' }),
	'fail_P73: the next probe is far away');
point('127.0.0.2');
$first->stop;
is(call('pool', '{"max_attempts": 20}'), 'good', 'fail_P73: nobody is there for a session');
ok(InferTest::wait_until(30, sub { server('pool', 'address') eq '127.0.0.2' }), 'fail_P73: and the gateway looks it up');
$first = InferTest::Mock->new('-p', $port, 'base_ms=1');
$node->append_conf('postgresql.conf', "pg_inference.dns_ttl = '1s'\npg_inference.probe_interval = '200ms'");
$node->reload;

# A gateway that does not move has sessions look names up by themselves, in the end.
kill 'STOP', $gateway or die $!;
forget();
ok(InferTest::wait_until(30, sub { call('pool') eq 'good' && others('pool.test') > 0 }),
	'no gateway: sessions look names up');
kill 'CONT', $gateway;
ok(InferTest::wait_until(30, sub { forget(); call('pool') eq 'good' && others('pool.test') == 0 }),
	'and need not when it is back');
$node->append_conf('postgresql.conf', 'pg_inference.dns_ttl = 0');
$node->reload;
ok(InferTest::wait_until(30, sub { forget(); call('pool') eq 'good' && others('pool.test') == 1 }),
	'dns_ttl = 0: each session does');

# fail_P73: what a session remembers of a name by itself is forgotten when nobody is there.
point('127.0.0.1');
my $session = InferProc->start($node, 'remembers', qq{SELECT infer.complete('pool/m', 'before') <> '';
	\\! touch $folder/before; while [ ! -e $folder/moved ]; do sleep 0.05; done
	SELECT infer.complete('pool/m', 'after', options => '{"max_attempts": 20}') <> '';});
ok(InferTest::wait_until(60, sub { -e "$folder/before" }), 'fail_P73: a session has a name looked up');
$first->stop;
point('127.0.0.2');
append_to_file("$folder/moved", '');
my ($out, $err) = $session->finish;
is($out, "t\nt\n", 'fail_P73: and again when nobody is there any more') or diag($err);
$first = InferTest::Mock->new('-p', $port, 'base_ms=1');
$node->append_conf('postgresql.conf', "pg_inference.dns_ttl = '1min'");
$node->reload;

# ----------------------------------------------------------------------------------------------
# Egress: the addresses that calls may not go to, probes may not, either.

is(call('meta', '{"max_attempts": 1}'), 'egress_denied', 'egress: a call');
ok(InferTest::wait_until(30, sub { grep { $_ == $gateway } lookups('meta.test') }), 'egress: the gateway looks it up');
ok(InferTest::wait_until(30, sub { server('meta', 'last_probe IS NOT NULL') eq 't' }), 'egress: and has probed it');
is(server('meta', 'address, state'), '|up', 'egress: but has not connected, and takes it for no failure');

# ----------------------------------------------------------------------------------------------
# TLS: the name is the one that is verified, whatever its address; and whom the server's ca_file names.

my $pki = InferTls->new($folder);
$pki->authority('ca');
$pki->certificate('good', 'ca', san => 'DNS:secure.test');
my $front = $pki->front('good', upstream => $port);
ask(sprintf q{CREATE SERVER secure FOREIGN DATA WRAPPER pg_inference OPTIONS (url 'https://secure.test:%d/v1', ca_file '%s')},
	$front->port, $pki->path('ca.pem'));
is(call('secure'), 'good', 'TLS: a call');
ok(InferTest::wait_until(30, sub { server('secure', 'address') eq '127.0.0.1' }), 'TLS: it is probed');
forget();
is(call('secure'), 'good', 'TLS: another session');
is(others('secure.test'), 0, 'TLS: goes to the known address');
unlike($front->log, qr/failed/, 'TLS: under its name, with trust');
like($front->log, qr/^ok secure\.test/, 'TLS: which is what the server hears');

my $log = slurp_file($node->logfile);
unlike($log, qr/(ERROR|FATAL|PANIC):/, 'not a word of complaint in the log');
$node->stop;
done_testing();
