# The gateway's probes, and servers that answer them as no server should: it goes on, nobody else's
# probes wait for them, they go nowhere else, and what they say does no harm.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use InferTest;
use InferHostile;
use InferProc;
use InferTrap;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $interval = 0.2;
my $folder = PostgreSQL::Test::Utils::tempdir;
my $node = PostgreSQL::Test::Cluster->new('hostile');
$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_inference'
	pg_inference.probe_interval = '200ms'\n");
{
	local $ENV{LD_PRELOAD} = InferProc::build_slow_dns($folder);
	$node->start;
}
sub ask { return $node->safe_psql('postgres', join('', @_)); }
sub gateway { return ask(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'pg_inference gateway'}); }
my $gateway = gateway();

my $fine = InferTest::Mock->new('base_ms=1');
my $trap = InferTrap->new;
my $writes_down = InferTrap->new;
my $hostile = InferHostile->new(trap => $trap->port);
my $key_file = "$folder/key";
append_to_file($key_file, "sesame\n");

# All have keys. The gateway knows of them when somebody has called them.
my @servers;
sub add_servers
{
	my ($url, $options, @names) = @_;
	ask('CREATE EXTENSION IF NOT EXISTS pg_inference;', map {
		my $list = $options =~ s/NAME/$_/r;
		qq{CREATE SERVER $_ FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$url/v1', admission_key '$_', $list);
		CREATE USER MAPPING FOR PUBLIC SERVER $_ OPTIONS (api_key_file '$key_file');} } @names);
	ask("SET pg_inference.request_timeout = '10ms'; SET pg_inference.max_attempts = 1;", map {
		"SELECT (infer.try_complete('$_/gone', 'x')).reason;" } @names);
	push @servers, @names;
	return;
}

# How many probes of the good server there are in so many seconds, of those that should be at least.
sub share
{
	my ($seconds) = @_;
	my ($before, $began) = ($fine->stat('probes'), time);
	sleep $seconds;
	return ($fine->stat('probes') - $before) / ((time - $began) / ($interval * 1.1));
}
sub probed_of { return ask("SELECT count(*) FROM infer.stat_servers WHERE last_probe IS NOT NULL AND server IN ('" . join("', '", @_) . "')"); }

# ----------------------------------------------------------------------------------------------
# Each of them, all at once.

my @quick = qw(endless_head endless_line endless_100 many_100 http_09 http_37 rubbish status_000 status_204 status_304
	status_307 status_999 length_short length_long length_minus length_huge lying_length chunk_bad chunk_huge endless_body
	bomb bomb_503 no_gzip gone to_file to_metadata to_trap leads_away says_nul says_bytes says_much says_again);
my @metrics = qw(endless_metrics metrics_nul metrics_cut);
my @slow = qw(half_head drip_head drip_body silent no_tls hangs);
my $memory = InferProc::memory_kb($gateway, 'VmHWM');
add_servers($hostile->url, q{health_path '/NAME', incarnation 'header:X-Incarnation'}, @quick, @slow[ 0 .. 3 ]);
add_servers($hostile->url, q{health_path '/says_field', incarnation 'field:id'}, 'says_field');
my %metrics = map { $_ => InferHostile->new(metrics => s/endless_metrics/endless_body/r) } @metrics;
add_servers($metrics{$_}->url, q{health_path '/status_204', incarnation 'metric:id'}, $_) foreach @metrics;
add_servers($hostile->url =~ s/http/https/r, q{health_path '/NAME'}, 'no_tls');
add_servers("http://$_.test:80", q{health_path '/NAME', allow_cleartext 'true'}, $_ eq 'hang' ? 'hangs' : 'fails') foreach qw(hang fail);
add_servers('http://127.0.0.1:' . $writes_down->port, q{health_path '/NAME'}, 'writes_down');
add_servers($fine->url, q{incarnation 'header:X-Incarnation'}, 'fine'); # its turn is the last

my @ending = (@quick, @metrics, qw(says_field fails writes_down));
ok(InferTest::wait_until(30, sub { probed_of(@ending) == @ending }), 'all that end are probed');
cmp_ok(share(1.5), '>', 0.3, 'gw_7: the good one as often as ever');
my $rows = ask(q{SELECT server, state, why, incarnation, incarnations, address, errors FROM infer.stat_servers ORDER BY server});
unlike($rows, qr/[^ -~\n]/, 'what is shown of them is text');
like($rows, qr/^fine\|up\|/m, 'the good one is up');
like($rows, qr/^bomb_503\|behind\|/m, 'one that is not ready at length is behind');
like($rows, qr/^says_bytes\|.*\|\?\?\?~[0-9a-f]{16}\|/m, 'no text: a sum of it stands for it');
like($rows, qr/^says_much\|.*\|(?:long)+l?o?n?~[0-9a-f]{16}\|/m, 'too long: as well');
like($rows, qr/^says_again\|.*\|\d+\.\d+\|[1-9]\d*\|/m, 'one that is another each time: the last of them');
like($rows, qr/^metrics_nul\|.*\|\?\?~[0-9a-f]{16}\|/m, 'a metric that is no text');
like($rows, qr/^(?:endless_metrics|metrics_cut)\|[^|]*\|[^|]*\|\|0\|/m, 'one that does not end says nothing');
is($trap->connections, 0, 'nobody is led elsewhere');
like($writes_down->seen, qr{^GET /writes_down }m, 'what the gateway sends is written down');
unlike($writes_down->seen =~ s/POST .*?\r\n\r\n//gsr, qr/sesame|authorization/i, '... and has no key');

# ----------------------------------------------------------------------------------------------
# So many that do not answer that they would fill all places.

ask(map { "DROP SERVER $_ CASCADE;" } @ending);
add_servers($hostile->url, q{health_path '/silent'}, map { "silent$_" } 1 .. 64);
ok(InferTest::wait_until(60, sub { probed_of(@slow) == @slow }), 'those that do not end are given up');
ok(InferTest::wait_until(60, sub { ask(q{SELECT count(*) FROM infer.stat_servers WHERE server LIKE 'silent%' AND last_probe IS NOT NULL}) >= 58 }),
	'so are many more');
cmp_ok(share(1.5), '>', 0.3, 'gw_7: the good one is probed as often as ever');
if ($ENV{PG_INFERENCE_LONG})
{
	my $then = ask('SELECT clock_timestamp()');
	ok(InferTest::wait_until(120, sub { ask("SELECT count(*) FROM infer.stat_servers WHERE last_probe < '$then'") == 0 }), 'the others take turns');
}
is(ask(q{SELECT query FROM pg_stat_activity WHERE backend_type = 'pg_inference gateway'}) =~ /^watching servers: (\d+) in use/ ? $1 : '',
	@servers - @ending, 'all are watched');
cmp_ok(InferProc::memory_kb($gateway, 'VmHWM') - $memory, '<', 48 * 1024, 'it does not grow with what it is sent');
is(gateway(), $gateway, 'it is the same process');
$node->stop;
unlike(slurp_file($node->logfile), qr/(?:WARNING|FATAL|PANIC):|ERROR:/, 'not a word of complaint in the log');
done_testing();
