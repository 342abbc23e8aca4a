# What the gateway's probes find out about servers, and what they leave alone: gateway.md section 7.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use InferTest;
use InferProc;
use InferPulse;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $pulse = InferPulse->new;
my $interval = 0.2;
my $node = InferTest::new_node('probes', 'pg_inference.gateway = on', "pg_inference.probe_interval = '200ms'");
sub ask { return $node->safe_psql('postgres', join('', @_)); }

my %mock = map { $_ => InferTest::Mock->new('base_ms=1') } qw(a b flaps silent);
my $key_file = PostgreSQL::Test::Utils::tempdir . '/key';
append_to_file($key_file, "sesame\n");
ask('CREATE EXTENSION pg_inference');
foreach my $name (sort keys %mock)
{
	my $url = $mock{$name}->url;
	ask("CREATE SERVER $name FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$url/v1');
		CREATE USER MAPPING FOR PUBLIC SERVER $name OPTIONS (api_key_file '$key_file')");
	$mock{$name}->set('api_key=sesame');
}

# What the gateway says of its servers: in use, failed, not ready.
sub servers
{
	my $text = ask(q{SELECT query FROM pg_stat_activity WHERE backend_type = 'pg_inference gateway'});
	return "$1 $2 $3" if $text =~ /^watching servers: (\d+) in use, (\d+) failed, (\d+) not ready$/;
	return $text;
}
sub becomes
{
	my ($want, $name) = @_;
	my $seen = '';
	ok(InferTest::wait_until(30, sub { ($seen = servers()) eq $want }), $name) or diag("$seen, not $want");
	return;
}

# Waits until that many more probes have been seen there.
sub probed
{
	my ($name, $n) = @_;
	my $before = $mock{$name}->stat('probes');
	return InferTest::wait_until(30, sub { $mock{$name}->stat('probes') >= $before + $n });
}
sub call { return ask("SELECT (infer.try_complete('$_[0]/m', 'x ' || clock_timestamp())).reason IS NULL"); }

# ----------------------------------------------------------------------------------------------
# gw_7: one probe a server and interval, however many sessions there are; without a key.

is(servers(), 'no servers in use', 'nobody is probed whom nobody uses');
is($mock{a}->stat('probes') + $mock{b}->stat('probes'), 0, '... indeed');
my @sessions = map {
	InferProc->start($node, "user $_", q{DO $$
		DECLARE began timestamptz := clock_timestamp();
		BEGIN
			WHILE clock_timestamp() < began + interval '2 s' LOOP
				PERFORM infer.complete('a/m', 'x ' || clock_timestamp()),
					infer.complete('b/m', 'x ' || clock_timestamp()), pg_sleep(0.02);
			END LOOP;
		END $$;});
} 1 .. 20;
becomes('2 0 0', 'servers in use are watched');
probed('a', 1);
my $began = time;
my %before = map { $_ => $mock{$_}->stat('probes') } qw(a b);
$_->finish foreach @sessions;
my %probes = map { $_ => $mock{$_}->stat('probes') - $before{$_} } qw(a b);
my $spans = (time - $began) / $interval;
my $unhindered = $pulse->since($began) / $interval;
foreach my $name (qw(a b))
{
	cmp_ok($probes{$name}, '<=', $spans / 0.9 + 1, "gw_7: one probe an interval of $name, for 20 sessions");
	cmp_ok($probes{$name}, '>=', $unhindered / 1.5 - 2, "gw_7: ... but one");
	is($mock{$name}->stat('probes_with_key'), 0, "gw_7: without a key, which calls of $name have");
}
is($mock{a}->stat('failed') + $mock{b}->stat('failed'), 0, 'gw_7: indeed');

# ----------------------------------------------------------------------------------------------
# gw_7: what an answer means.

$mock{a}->set('health_status=503');
becomes('2 0 1', 'gw_7: 503 is not ready, and not failed');
is(call('a'), 't', 'gw_7: ... and is called, where there is no other');
$mock{a}->set('health_status=503');
becomes('2 0 1', 'gw_7: which the next probe knows better');
$mock{a}->set('health_status=200');
becomes('2 0 0', 'gw_7: 200 is ready');
foreach my $status (400, 401, 403, 429, 500, 502)
{
	$mock{a}->set("health_status=$status");
	probed('a', 2);
	is(servers(), '2 0 0', "gw_7: $status is an answer");
}
is($mock{a}->stat('model_lists'), 0, 'gw_7: there is no need to look for another path');
$mock{a}->set('health_status=404', 'models_status=503');
becomes('2 0 1', 'gw_7: where there is no /health, the list of models is asked');
$mock{a}->set('models_status=401');
my $lists = $mock{a}->stat('model_lists');
ok(InferTest::wait_until(30, sub { $mock{a}->stat('model_lists') >= $lists + 2 }), 'gw_7: and asked again');
is(servers(), '2 0 1', 'gw_7: who does not say is what it was');
is(call('a'), 't', 'gw_7: until a call finds out');
becomes('2 0 0', 'gw_7: and then it is ready');
$mock{a}->set('health_status=200', 'models_status=200');

# A path of its own, and a header that says which incarnation it is.
ask(q{ALTER SERVER b OPTIONS (ADD health_path '/v1/models', ADD incarnation 'header:X-Incarnation')});
$mock{b}->set('incarnation=first');
is(call('b'), 't', 'gw_7: options count from the next call on');
my $lists_of_b = $mock{b}->stat('model_lists');
ok(InferTest::wait_until(30, sub { $mock{b}->stat('model_lists') >= $lists_of_b + 2 }), 'gw_7: it is probed where the option says');
my $incarnation = sub { return ask(q{SELECT incarnation, incarnations FROM infer.stat_servers WHERE server = 'b'}); };
is($incarnation->(), 'first|0', 'gw_7: probes tell the incarnation');
$mock{b}->set('incarnation=second');
ok(InferTest::wait_until(30, sub { $incarnation->() eq 'second|1' }), 'gw_7: and a change of it, without a call');
ask(q{ALTER SERVER b OPTIONS (DROP health_path)});
is(call('b'), 't', 'gw_7: back to the usual path');

# ----------------------------------------------------------------------------------------------
# gw_3: a server whose calls fail is not healthy while it is left alone. Then its node counts as before, so
# that a call goes there and sees that it is well again.

{
	my %shared = (x1 => InferTest::Mock->new('base_ms=1'), rest => InferTest::Mock->new('base_ms=1'));
	foreach my $name (qw(x1 x2 y1 y2))
	{
		my $url = ($shared{$name} // $shared{rest})->url;
		ask("CREATE SERVER $name FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$url/v1', node '@{[ substr($name, 0, 1) ]}', admission_key '$name')");
	}
	ask(q{SELECT infer.create_model('turns', 'complete', 'x1', 'm', strategy => 'rr');
		SELECT infer.add_placement('turns', s, 'm') FROM unnest('{x2,y1,y2}'::text[]) s});
	ask(q{SELECT infer.complete('turns', 'x ' || i) FROM generate_series(1, 12) i});
	my $health = sub { return ask(q{SELECT string_agg(node || health_factor, ' ' ORDER BY node) FROM infer.stat_nodes WHERE node IN ('x', 'y')}) };
	ok(InferTest::wait_until(30, sub { $health->() eq 'x20 y20' }), 'gw_3: two nodes of two healthy servers') or diag($health->());
	$shared{x1}->set('fault_500=100');
	my $broken = 0;
	ok( InferTest::wait_until(30, sub { # it is left alone for a second only, but longer the more of its calls fail
				$broken++;
				ask("SELECT (infer.try_complete('x1/m', 'broken $broken')).reason");
				return $health->() eq 'x10 y20'; }),
		'gw_3: one whose calls fail is not healthy') or diag($health->());
	$shared{x1}->set('defaults');
	my $n = 0;
	ok( InferTest::wait_until(30, sub {
				$n++;
				ask("SELECT infer.complete('turns', 'y $n ' || i) FROM generate_series(1, 4) i");
				return ask(q{SELECT state FROM infer.stat_servers WHERE server = 'x1'}) eq 'up'; }),
		'gw_3: ... until it has been left alone for long enough, and a call finds that it is well');
	ask('SELECT infer.drop_model(\'turns\'); DROP SERVER x1, x2, y1, y2');
}

# ----------------------------------------------------------------------------------------------
# gw_7, fail_P41: a server is failed when nobody has been able to connect to it for four seconds; not
# one that comes and goes every second, and not one that only does not answer.

$mock{silent}->set('health_status=0');
is(call('flaps'), 't', 'the one that will flap');
is(call('silent'), 't', 'the one that will not answer');
becomes('4 0 0', 'four are watched');
sub port { return $_[0]->url =~ /:(\d+)$/ ? $1 : 0; }
my %port = map { $_ => port($mock{$_}) } qw(b flaps);
sub revive { $mock{ $_[0] } = InferTest::Mock->new('-p', $port{ $_[0] }, 'base_ms=1', 'api_key=sesame'); return; }

$mock{b}->stop;
my $died = time;
my %seen;
my $failed_at;
for my $second (1 .. 6)
{
	$second % 2 ? $mock{flaps}->stop : revive('flaps');
	while (time < $died + $second)
	{
		my $state = servers();
		$seen{$state} = 1;
		$failed_at //= time if $state eq '4 1 0';
		sleep 0.05;
	}
}
becomes('4 1 0', 'fail_P41: the dead one is failed');
$failed_at //= time;
cmp_ok($failed_at - $died, '>=', 3.9, 'fail_P41: after four seconds');
is(join(', ', sort keys %seen), '4 0 0, 4 1 0', 'gw_7: and none of the others ever is');
is(call('flaps'), 't', 'gw_7: the one that flaps can be called');
revive('b');
my $healed = time;
becomes('4 0 0', 'fail_P41: one that is back is found by a probe, without a call');
cmp_ok($pulse->since($healed), '<', 3, 'fail_P41: soon');
is($mock{b}->stat('requests'), 0, 'fail_P41: indeed');

# fail_P43: who waits because all are down is woken when a probe finds that one is back.
ask(q{SELECT infer.create_model('two', task => 'complete', server => 'b', remote_model => 'mock');
	SELECT infer.add_placement('two', server => 'flaps')});
$mock{$_}->stop foreach qw(b flaps);
becomes('4 2 0', 'fail_P43: all of its servers are down');
my $waits = InferProc->start($node, 'waits',
	q{SET pg_inference.all_failed_wait = '60s'; SELECT infer.complete('two', 'waits') <> '';});
ok(InferTest::wait_until(30, sub { ask(q{SELECT count(*) FROM pg_stat_activity
	WHERE application_name = 'waits' AND wait_event IN ('Extension', 'InferRetry')}) eq '1' }), 'fail_P43: a call waits');
revive('b');
$healed = time;
my ($out, $err) = $waits->finish;
is($out, "t\n", 'fail_P43: and is answered when one is back') or diag($err);
cmp_ok($pulse->since($healed), '<', 5, 'fail_P43: at once');
revive('flaps');
becomes('4 0 0', 'all are back');

# ----------------------------------------------------------------------------------------------
# A change of settings counts at once; no probes without an interval.

$node->append_conf('postgresql.conf', 'pg_inference.probe_interval = 0');
$node->reload;
becomes('no servers in use', 'interval 0: nobody is watched');
my $probes = $mock{b}->stat('probes');
is(call('a'), 't', 'interval 0: calls work');
sleep 0.7;
is($mock{b}->stat('probes'), $probes, 'interval 0: nobody is probed');
$node->append_conf('postgresql.conf', "pg_inference.probe_interval = '1h'");
$node->reload;
becomes('4 0 0', 'an interval of an hour');
$node->append_conf('postgresql.conf', "pg_inference.probe_interval = '200ms'");
$node->reload;
ok(probed('b', 3), 'a shorter one does not wait for the end of it');

# What infer.stat_servers says of one that calls could not connect to, once a probe could.
sub state { return ask(q{SELECT state || coalesce(' ' || why, '') FROM infer.stat_servers WHERE server = 'flaps'}) }
$mock{flaps}->stop;
like(ask(q{SELECT (infer.try_complete('flaps/m', 'gone')).reason}), qr/connect_failed|server_failed/, 'a server is gone');
is(state(), 'failed connect_failed', 'stat_servers: it has failed');
revive('flaps');
ok(InferTest::wait_until(30, sub { state() eq 'up' }), 'stat_servers: it is up, by a probe, without a call') or diag(state());
is($mock{flaps}->stat('requests'), 0, '... indeed');

# ----------------------------------------------------------------------------------------------
# Servers and databases that go under way.

$node->safe_psql('postgres', 'CREATE DATABASE other');
my $url = $mock{a}->url;
$node->safe_psql('other', "CREATE EXTENSION pg_inference;
	CREATE SERVER a FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$url/v1');
	CREATE USER MAPPING FOR PUBLIC SERVER a OPTIONS (api_key_file '$key_file');");
$node->safe_psql('other', q{SELECT infer.complete('a/m', 'other')});
becomes('5 0 0', 'the same address in another database');
my $start = time;
$node->safe_psql('postgres', 'DROP DATABASE other');
cmp_ok($pulse->since($start), '<', 5, 'DROP DATABASE does not wait for the gateway');
is(call('a'), 't', '... and calls go on');
my $log = slurp_file($node->logfile);
unlike($log, qr/(ERROR|FATAL|WARNING|PANIC):/, 'not a word of complaint in the log');
$node->stop;
done_testing();
