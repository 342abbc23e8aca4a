# Taking a server out of service: what waits and what is new is refused as not admitted, what is in
# flight has the grace to end, the rest is cut off and may have been executed; the report adds up.
use strict;
use warnings;
use InferTest;
use InferProc;
use InferPulse;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $pulse = InferPulse->new;
my $mock = InferTest::Mock->new('reply=echo', 'late_ms=2500');
my $second = InferTest::Mock->new('reply=echo');
my $node = InferTest::new_node('drain', 'statement_timeout = 60s');
InferTest::connect_mock($node, $mock, max_concurrency => 3);
my $url = $second->url . '/v1';
$node->safe_psql(
	'postgres', qq{
	CREATE SERVER second FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$url');
	SELECT infer.create_model('pair', task => 'complete', server => 'mock', remote_model => 'mock');
	SELECT infer.add_placement('pair', server => 'second', remote_model => 'mock');
	CREATE ROLE owner LOGIN; CREATE ROLE stranger LOGIN; CREATE ROLE operator LOGIN IN ROLE pg_signal_backend;
	ALTER FOREIGN DATA WRAPPER pg_inference OWNER TO CURRENT_USER;
	GRANT USAGE ON FOREIGN DATA WRAPPER pg_inference TO owner;
	SET ROLE owner;
	CREATE SERVER owned FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$url')});

sub ask { return $node->safe_psql('postgres', $_[0]); }

# What a call comes to.
sub call
{
	my ($text, %with) = @_;
	my $model = $with{model} // 'c';
	my $options = $with{options} // '{"timeout": "5min"}';
	return "SELECT coalesce(value, reason || ' ' || execution) FROM infer.try_complete('$model', '$text', '{}', '$options');\n";
}

my %session;
sub begin
{
	my ($name, $script) = @_;
	$session{$name} = InferProc->start($node, $name, $script);
	$session{$name}->backend;
	return;
}

sub result
{
	my ($name) = @_;
	my ($out, $err) = (delete $session{$name})->finish(60);
	chomp $out;
	return $err eq '' ? $out : $err;
}

sub waiting { return ask('SELECT count(*) FROM infer.stat_queue'); }
sub is_waiting { my ($n) = @_; return InferTest::wait_until(60, sub { waiting() == $n }); }
sub is_in_flight { my ($n) = @_; return InferTest::wait_until(60, sub { $mock->stat('in_flight') == $n }); }
# A session that has called infer.drain() waits there.
sub drains
{
	my ($name) = @_;
	my $pid = $session{$name}->backend;
	return InferTest::wait_until(60, sub { ask("SELECT state = 'active' AND query LIKE '%infer.drain%' FROM pg_stat_activity WHERE pid = $pid") eq 't' });
}

# fail_P64, fail_P65
begin('late', call('late [[mock:late]]'));
begin("hangs$_", call("hangs$_ [[mock:hang]]")) foreach 1, 2;
ok(is_in_flight(3), 'three are in flight, one of which will be answered');
begin("waits$_", call("waits$_")) foreach 1, 2;
ok(is_waiting(2), '... and two wait for a permit');
begin('drain', "SELECT * FROM infer.drain('mock', '6 seconds');\n");
is(result("waits$_"), 'draining not_admitted', "fail_P64: who waits ($_) is refused, not admitted") foreach 1, 2;
is($mock->stat('requests'), 3, '... and was never sent');
is(waiting(), 0, 'nobody waits');
my $start = time;
is( $node->psql('postgres', q{SELECT infer.complete('c', 'new')}, stderr => \my $refusal),
	3, 'fail_P65: new work fails');
cmp_ok($pulse->since($start), '<', 3, '... at once');
like($refusal, qr/mock.*being taken out of service/, '... and says why');
is(ask(call('new')), 'draining not_admitted', 'fail_P65: ... not admitted');
is($mock->stat('requests'), 3, '... without a request');
is(result('late'), 'late [[mock:late]]', 'fail_P64: what ends within the grace is answered');
begin('shorter', "SELECT * FROM infer.drain('mock', '0 seconds');\n");
begin('longer', "SELECT * FROM infer.drain('mock', '1 hour');\n");
ok(drains('shorter') && drains('longer'), 'others drain it, too');
ok(is_in_flight(2), 'fail_P64: ... which does not shorten the first grace');
is(ask(q{SELECT state FROM infer.stat_servers WHERE server = 'mock'}), 'draining', 'infer.stat_servers says so');
is(result("hangs$_"), 'draining maybe_executed', "fail_P64: the rest ($_) is cut off, and may have been executed") foreach 1, 2;
# two waited, two were new; one was answered, two were cut off
my $report = 'mock|f|f|1|0|0|2|0|4|0';
is(result('drain'), $report, 'fail_P64: the report adds up');
is(result('shorter'), $report, '... and is shared');
is(result('longer'), $report, '... with the first deadline');
ok(is_in_flight(0), 'nothing is in flight at the server');
is(ask('SELECT in_flight, waiting FROM infer.stat_admission LIMIT 1'), '0|0', '... nor with us');
$start = time;
is(ask(q{SELECT * FROM infer.drain('mock', '1 hour')}), 'mock|f|t|1|0|0|2|0|4|0', 'one more call finds it drained');
cmp_ok($pulse->since($start), '<', 3, '... and does not wait');
is(ask(call('still')), 'draining not_admitted', 'it is out of service until');
is(ask(q{SELECT infer.undrain('mock'), infer.undrain('mock')}), 't|f', '... it is put back');
is(ask(call('again')), 'again', 'then it serves');
is(ask(q{SELECT state FROM infer.stat_servers WHERE server = 'mock'}), 'up', '... and is up');

# all of it ends by itself: then nobody waits for the end of the grace
$mock->reset;
begin('late', call('late [[mock:late]]'));
ok(is_in_flight(1), 'one is in flight');
$start = time;
is(ask(q{SELECT * FROM infer.drain('mock', '5 minutes')}), 'mock|t|f|1|0|0|0|0|0|0', 'it ends, and the server is drained');
cmp_ok($pulse->since($start), '<', 60, '... before the grace is over');
is(result('late'), 'late [[mock:late]]', '... with its answer');
ask(q{SELECT infer.undrain('mock')});

# what its own statement gives up; and the wait can be cancelled, which leaves the server drained
begin('hangs', call('hangs [[mock:hang]]'));
ok(is_in_flight(1), 'one is in flight');
begin('drain', "SET statement_timeout = '100ms'; SELECT * FROM infer.drain('mock', '5 minutes');\n");
like(result('drain'), qr/57014.*canceling statement due to statement timeout/, 'the wait can be interrupted');
is(ask(call('new')), 'draining not_admitted', '... and the server stays out of service');
begin('drain', "SELECT * FROM infer.drain('mock', '1 hour');\n");
ok(drains('drain'), 'it is waited for again');
ask('SELECT pg_cancel_backend(' . $session{hangs}->backend . ')');
like(result('hangs'), qr/57014/, 'its statement is cancelled');
is(result('drain'), 'mock|t|f|0|1|0|0|0|1|0', 'what was abandoned is counted as that');
# another address is the same server
ask("ALTER SERVER mock OPTIONS (SET url '$url')");
is(ask(call('new')), 'draining not_admitted', 'it is drained wherever it is');
ask('ALTER SERVER mock OPTIONS (SET url \'' . $mock->url . "/v1')");
ask(q{SELECT infer.undrain('mock')});

# one that is dropped meanwhile is not waited for any more
$mock->reset;
ask(qq{CREATE SERVER goes FOREIGN DATA WRAPPER pg_inference OPTIONS (url '@{[ $mock->url ]}/v1')});
begin('hangs', "SELECT infer.complete('goes/m', 'hangs [[mock:hang]]', '{}', '{\"timeout\": \"5min\"}');\n");
ok(is_in_flight(1), 'one is in flight');
begin('drain', "SELECT server_name FROM infer.drain('goes', '5 minutes');\n");
ok(drains('drain'), 'its server is drained');
ask('DROP SERVER goes');
is(result('drain'), 'goes', 'dropped: it is not waited for');
ask('SELECT pg_cancel_backend(' . $session{hangs}->backend . ')');
result('hangs');

# other servers of the model take over
$mock->reset;
$second->reset;
ask(q{SELECT * FROM infer.drain('mock', '0 seconds')});
is( ask(q{SELECT count(infer.complete('pair', 'row ' || i)) FROM generate_series(1, 30) AS i}),
	30, 'a model of two servers is answered');
is($mock->stat('requests') . ' ' . $second->stat('items'), '0 30', '... by the other one');
is(ask(q{SELECT refused FROM infer.drain('mock', '0 seconds')}), 0, '... and nothing is refused');
ask(q{SELECT * FROM infer.drain('second', '0 seconds')});
is(ask(call('pair', model => 'pair')), 'draining not_admitted', 'with both drained, it is');
is( ask(q{SELECT server, verdict, reason FROM infer.explain_route('pair') ORDER BY server}),
	"mock|eliminated|draining\nsecond|eliminated|draining\n|draining|draining", '... and infer.explain_route() says why');
ask('SELECT infer.undrain()');
is(ask(call('pair', model => 'pair')), 'pair', '... until both are back');
# ... also of what is cut off, if the call may run twice
$mock->reset;
$second->reset;
begin('moves', call('moves [[mock:hang]]', model => 'pair',
	options => '{"timeout": "5min", "retry": "ambiguous", "route_prefs": {"prefer": ["mock"]}}'));
ok(is_in_flight(1), 'one is in flight there');
is(ask(q{SELECT * FROM infer.drain('mock', '100 ms')}), 'mock|f|f|0|0|0|1|0|0|0', 'it is cut off');
ok(InferTest::wait_until(60, sub { $second->stat('requests') == 1 }), '... and goes to the other server');
ask('SELECT pg_cancel_backend(' . $session{moves}->backend . ')');
result('moves');
ask(q{SELECT infer.undrain('mock')});

# a process that does not look keeps its requests
begin('idle', <<'SQL');
SELECT i, CASE WHEN i = 1 THEN pg_sleep(300) END FROM (SELECT i, infer.complete('c', 'x' || i || CASE WHEN i > 1 THEN ' [[mock:hang]]' ELSE '' END, '{}', '{"timeout": "5min"}') AS c
  FROM generate_series(1, 40) AS i OFFSET 0) AS s WHERE c <> '';
SQL
ok(InferTest::wait_until(60, sub { ask(q{SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'}) == 1 }), 'a session does something else');
my $left = ask('SELECT sum(in_flight) FROM infer.stat_admission');
cmp_ok($left, '>', 0, "... with $left in flight");
is(ask(q{SELECT * FROM infer.drain('mock', '0 seconds')}), "mock|f|f|0|0|0|0|0|0|$left", 'they are left, and the report says so');
ask('SELECT pg_terminate_backend(' . $session{idle}->backend . ')');
result('idle');
is(ask(q{SELECT * FROM infer.drain('mock', '0 seconds')}), "mock|t|t|0|$left|0|0|0|0|0", '... until it is gone');
ask(q{SELECT infer.undrain('mock')});

# who may
sub refused
{
	my ($role, $sql) = @_;
	$node->psql('postgres', "SET ROLE $role; $sql", stderr => \my $err);
	return $err =~ /permission denied to drain (\S+ ?\S*)/ ? $1 : $err;
}
is(refused('stranger', q{SELECT infer.drain('owned')}), 'server "owned"', 'a stranger may not');
is(refused('stranger', q{SELECT infer.undrain('owned')}), 'server "owned"', '... nor undo it');
is(refused('owner', q{SELECT infer.drain('mock')}), 'server "mock"', 'an owner not those of others');
is(refused('owner', q{SELECT infer.drain()}), 'all servers', '... nor all');
is(ask(q{SET ROLE owner; SELECT server_name, drained FROM infer.drain('owned'); SELECT infer.undrain('owned')}), "owned|t\nt", 'but his own');
is(ask(q{SET ROLE operator; SELECT server_name, drained FROM infer.drain(grace => '0'); SELECT infer.undrain()}),
	"mock|t\nowned|t\nsecond|t\nt", 'pg_signal_backend may drain all');
foreach (q{'nobody'}, q{'mock', '-1 second'}, q{'mock', NULL}, q{'mock', '1 year'})
{
	isnt($node->psql('postgres', "SELECT infer.drain($_)", stderr => \my $err), 0, "infer.drain($_) is refused");
}
done_testing();
