# The dispatch queue: a node takes so much LONG and EPIC work at a time, over all sessions; who has
# to wait goes by priority and arrival, work without weight passes, and whoever leaves strands nobody.
use strict;
use warnings;
use InferPulse;
use InferTest;
use InferProc;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $mock = InferTest::Mock->new('reply=echo');
my $node = InferTest::new_node('dispatch', 'statement_timeout = 60s', 'max_connections = 60');
InferTest::connect_mock($node, $mock, node => 'a', admission_key => 'ka');
# on the same node under another key; with one permit; on another node
my $url = $mock->url . '/v1';
$node->safe_psql(
	'postgres', qq{
	CREATE SERVER beside FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$url', node 'a', admission_key 'kb');
	CREATE SERVER narrow FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$url', node 'a', admission_key 'kc', max_concurrency '1');
	CREATE SERVER other FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$url', node 'b', admission_key 'kd');
	CREATE SERVER alone FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$url', admission_key 'ke')});

sub ask { return $node->safe_psql('postgres', $_[0]); }

my (%session, $sent);

# A call in a session of its own that never gets its answer.
sub begin
{
	my ($name, $duration, %with) = @_;
	my $server = $with{server} // 'mock';
	my $priority = $with{priority} // 'NORMAL';
	$session{$name} = InferProc->start($node, $name,
		"SELECT infer.complete('$server/m', '$name [[mock:hang]]', '{}', '{\"duration\": \"$duration\", \"priority\": \"$priority\", \"timeout\": \"5min\"}');\n");
	$session{$name}->backend;
	return;
}

# Sessions that the mock has heard of, in order of their arrival there.
sub left
{
	my $ledger = $mock->ledger;
	return join(' ', map { (split / /)[0] }
		sort { $ledger->{$a}{first_seen} <=> $ledger->{$b}{first_seen} || $a cmp $b } keys %$ledger);
}

sub queue
{
	return ask(q{SELECT coalesce(string_agg(a.application_name || ' ' || coalesce('key ' || key, 'node ' || node), ', '
		ORDER BY q.node, q.key, q.position), 'nobody') FROM infer.stat_queue AS q JOIN pg_stat_activity AS a USING (pid)});
}

sub is_left
{
	my ($wanted, $name) = @_;
	InferTest::wait_until(60, sub { left() eq $wanted });
	is(left(), $wanted, $name);
	return;
}

sub is_queue
{
	my ($wanted, $name) = @_;
	InferTest::wait_until(60, sub { queue() eq $wanted });
	is(queue(), $wanted, $name);
	return;
}

# Ends a session's call, wherever it is.
sub end
{
	my ($name, $how) = @_;
	my $pid = $session{$name}->backend;
	ask(($how // 'SELECT pg_cancel_backend') . "($pid)");
	$session{$name}->finish;
	delete $session{$name};
	return;
}

sub end_all
{
	end($_) foreach sort keys %session;
	is(queue(), 'nobody', 'nobody waits any more');
	$mock->reset;
	return;
}

# gw_6_1: a server's line, by priority, then as they came; gw_6_5: whoever leaves strands nobody
begin('busy', 'MEDIUM', server => 'narrow');
is_left('busy', 'the only permit is out');
is(queue(), 'nobody', 'nobody waits');
begin('normal1', 'MEDIUM', server => 'narrow');
is_queue('normal1 key kc', 'one waits');
is( ask(q{SELECT datname, usename = current_user, key, node, position, priority, duration, wanted, since < clock_timestamp(), deadline FROM infer.stat_queue}),
	'postgres|t|kc||1|NORMAL|MEDIUM|1|t|', '... as infer.stat_queue says');
begin('low', 'SHORT', server => 'narrow', priority => 'LOW');
is_queue('normal1 key kc, low key kc', 'two wait');
begin('normal2', 'MEDIUM', server => 'narrow');
is_queue('normal1 key kc, normal2 key kc, low key kc', 'gw_6_1: equal ones in the order of their arrival');
begin('high', 'MEDIUM', server => 'narrow', priority => 'HIGH');
is_queue('high key kc, normal1 key kc, normal2 key kc, low key kc', 'gw_6_1: a higher priority before them');
end('normal1');
is_queue('high key kc, normal2 key kc, low key kc', 'gw_6_5: one is cancelled');
end('busy');
is_left('busy high', 'gw_6_1: HIGH goes first');
end('normal2', 'SELECT pg_terminate_backend');
is_queue('low key kc', 'gw_6_5: one is terminated');
end('high', 'SELECT pg_terminate_backend');
is_left('busy high low', '... and strands nobody');
# of others only what one may see
ask('CREATE ROLE stranger');
begin('again', 'MEDIUM', server => 'narrow');
is_queue('again key kc', 'one waits');
is(ask('SET ROLE stranger; SELECT count(*) FROM infer.stat_queue'), 0, 'a stranger does not see it');
end_all();

# gw_6_3: MEDIUM, LONG, LONG, LONG, MEDIUM, with a maximum of 2
begin('m1', 'MEDIUM');
is_left('m1', 'gw_6_3: MEDIUM leaves');
begin('l2', 'LONG');
is_left('m1 l2', 'gw_6_3: LONG leaves');
begin('l3', 'LONG');
is_left('m1 l2 l3', 'gw_6_3: a second LONG leaves');
begin('l4', 'LONG');
is_queue('l4 node a', 'gw_6_3: the third LONG waits for its node');
begin('m5', 'MEDIUM');
is_left('m1 l2 l3 m5', 'gw_6_3: the last MEDIUM leaves at once');
is_queue('l4 node a', '... and the third LONG still waits');
is( ask(q{SELECT datname, usename = current_user, key, node, position, priority, duration, wanted, since < clock_timestamp(), deadline FROM infer.stat_queue}),
	'postgres|t||a|1|NORMAL|LONG|1|t|', '... as infer.stat_queue says');
is(ask(q{SELECT infer.complete('c', 'short', '{}', '{"duration": "SHORT"}')}), 'short', 'gw_6_1: SHORT work passes it');
is( ask(q{SELECT infer.complete('other/m', 'elsewhere', '{}', '{"duration": "EPIC"}')}),
	'elsewhere', 'gw_6_1: so does EPIC work of another node');
is( ask(q{SELECT infer.complete('alone/m', 'apart', '{}', '{"duration": "LONG"}')}),
	'apart', '... and of a server that is its own node');
begin('l6', 'LONG', server => 'beside');
is_queue('l4 node a, l6 node a', 'a node is what all of its servers have in flight');
end('l2');
is_left('m1 l2 l3 m5 short elsewhere apart l4', 'gw_6_3: the third LONG leaves when one of the two ends');
is_queue('l6 node a', '... and the next one waits');
end('l3');
is_left('m1 l2 l3 m5 short elsewhere apart l4 l6', '... until the other one ends');
is_queue('nobody', 'nobody waits');
end_all();

# gw_6_1: by priority, then as they came. Who is called and does not come within a tenth of a second is passed over, so on a
# machine that stands still for that long the order may be another one, once.
my $order;
foreach my $try (1 .. 3)
{
	begin('l1', 'LONG');
	begin('l2', 'LONG');
	InferTest::wait_until(60, sub { $mock->stat('requests') == 2 });
	begin('normal1', 'LONG');
	is_queue('normal1 node a', 'one waits');
	begin('low', 'LONG', priority => 'LOW');
	is_queue('normal1 node a, low node a', 'two wait');
	begin('normal2', 'LONG');
	is_queue('normal1 node a, normal2 node a, low node a', 'gw_6_1: equal ones in the order of their arrival');
	begin('high', 'LONG', priority => 'HIGH');
	is_queue('high node a, normal1 node a, normal2 node a, low node a', 'gw_6_1: a higher priority before them');
	$mock->reset;
	end('l1');
	foreach my $n (1 .. 4)
	{
		ok(InferTest::wait_until(60, sub { split(/ /, left()) == $n }), 'gw_6_1: one leaves when another one ends');
		end((split / /, left())[-1]) if $n < 4;
	}
	$order = left();
	end_all();
	last if $order eq 'high normal1 normal2 low';
}
is($order, 'high normal1 normal2 low', 'gw_6_1: HIGH goes first, then those that came first, and the lowest last');

# gw_6_3, gw_6_5: an EPIC unit waits for all of the node; who leaves strands nobody
foreach my $how ('SELECT pg_cancel_backend', 'SELECT pg_terminate_backend')
{
	begin('l1', 'LONG');
	is_left('l1', 'one LONG is in flight');
	begin('e2', 'EPIC');
	is_queue('e2 node a', 'gw_6_3: EPIC does not fit beside it');
	begin('l3', 'LONG');
	is_queue('e2 node a, l3 node a', 'LONG that would fit does not overtake it');
	end('e2', $how);
	is_left('l1 l3', "gw_6_5: $how of who waits strands nobody");
	begin('e4', 'EPIC');
	is_queue('e4 node a', 'EPIC waits');
	end('l1', $how);
	is_queue('e4 node a', '... for both');
	end('l3', $how);
	is_left('l1 l3 e4', "gw_6_5: $how of who is in flight gives its weight back");
	end_all();
}

# gw_6_2: weight and permit together, or neither
begin('busy', 'MEDIUM', server => 'narrow');
is_left('busy', 'the only permit is out');
begin('both', 'LONG', server => 'narrow');
is_queue('both key kc', 'gw_6_2: LONG work waits for it');
begin('l1', 'LONG');
begin('l2', 'LONG');
InferTest::wait_until(60, sub { $mock->stat('requests') == 3 });
is($mock->stat('requests'), 3, '... and holds no weight meanwhile');
begin('l3', 'LONG');
# with its next look, once a second, the first one finds that it lacks the weight as well
ok(InferTest::wait_until(60, sub { queue() =~ /^(l3 node a, both key kc|both node a, l3 node a)$/ }), 'the next one waits for weight')
  or diag(queue());
end('busy');
is_queue('both node a, l3 node a', 'gw_6_2: the permit is there, the weight is not: it stands where it came');
is( ask(q{SELECT infer.complete('narrow/m', 'between', '{}', '{"duration": "SHORT", "timeout": "10s"}')}),
	'between', '... and holds no permit meanwhile');
$mock->reset;
end('l1');
is_left('both', 'gw_6_2: both are there');
is_queue('l3 node a', '... and the other one waits');
end_all();

# gw_6_1: work without weight passes also inside a statement, in the line of one key
sub begin_mixed
{
	my ($name, $server, @durations) = @_;
	my $rows = join(', ', map { "('$durations[$_]', $_)" } keys @durations);
	$session{$name} = InferProc->start($node, $name, qq{
		SELECT infer.complete('$server/m', duration || ' $name ' || i, '{}', jsonb_build_object('duration', duration, 'timeout', '5min'))
		FROM (VALUES $rows) AS v (duration, i);\n});
	return;
}

sub is_answered
{
	my ($name, @durations) = @_;
	my ($out, $err) = (delete $session{$name})->finish;
	is($out . $err, join('', map { "$durations[$_] $name $_\n" } keys @durations), "$name: all are answered, in order");
	return;
}

begin('l1', 'LONG');
begin('l2', 'LONG');
InferTest::wait_until(60, sub { $mock->stat('requests') == 2 });
begin_mixed('mixed', 'mock', qw(LONG SHORT SHORT));
is_left('l1 l2 SHORT SHORT', 'gw_6_1: SHORT passes LONG before it in the same statement');
is_queue('mixed node a', '... which waits for its node alone');
end('l1');
is_answered('mixed', qw(LONG SHORT SHORT));
begin('l3', 'LONG');
InferTest::wait_until(60, sub { $mock->stat('in_flight') == 2 });
$mock->reset;
begin('busy', 'MEDIUM', server => 'narrow');
is_left('busy', 'nor is there a permit');
begin_mixed('both', 'narrow', qw(LONG SHORT SHORT));
is_queue('both node a, both key kc', 'LONG waits for its node, SHORT in the line of the key');
end('busy');
is_left('busy SHORT SHORT', 'gw_6_1: SHORT gets the permit before LONG');
is_queue('both node a', '... which waits on');
begin('behind', 'LONG');
is_queue('both node a, behind node a', '... where it came');
end('l2');
is_answered('both', qw(LONG SHORT SHORT));
is_left('busy SHORT SHORT LONG behind', 'and the next one leaves');
end_all();

# gw_6_1: LONG work has its place from when it came, also behind SHORT work that waits for a permit
begin('l1', 'LONG');
begin('l2', 'LONG');
begin('busy', 'MEDIUM', server => 'narrow');
InferTest::wait_until(60, sub { $mock->stat('in_flight') == 3 });
begin_mixed('first', 'narrow', qw(SHORT LONG));
is_queue('first node a, first key kc', 'gw_6_1: SHORT waits for a permit, LONG behind it for its node as well');
begin('second', 'LONG');
is_queue('first node a, second node a, first key kc', 'gw_6_1: ... before LONG work that comes later');
$mock->reset;
end('l1');
is_left('second', 'gw_6_2: without a permit it is passed over');
end('busy');
is_left('second SHORT', '... which SHORT gets first');
is_queue('first node a', '... and LONG lacks the weight then');
begin('third', 'LONG');
is_queue('first node a, third node a', '... where it came');
end('l2');
is_answered('first', qw(SHORT LONG));
is_left('second SHORT LONG third', 'gw_6_1: it goes before who came later');
end_all();

# gw_6_3: EPIC work is not starved by LONG work of its own statement, either
begin('l1', 'LONG');
is_left('l1', 'one LONG is in flight');
begin_mixed('large', 'mock', qw(EPIC LONG LONG));
is_queue('large node a', 'gw_6_3: EPIC waits for all of the node');
begin('l2', 'LONG');
is_queue('large node a, l2 node a', '... and LONG behind it, of another statement and of its own');
is_left('l1', '... indeed');
end('l1');
is_answered('large', qw(EPIC LONG LONG));
is(left() =~ /^l1 EPIC / ? 'first' : left(), 'first', 'gw_6_3: EPIC leaves first');
end_all();

# gw_6_1: calls that wait for requests of their own take nothing from others of their statement
ask(qq{CREATE SERVER pair FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$url', admission_key 'kp', max_concurrency '2')});
begin('busy', 'MEDIUM', server => 'pair');
is_left('busy', 'one of two permits is out');
$session{bounded} = InferProc->start($node, 'bounded', q{
	SELECT infer.complete('pair/m', text, '{}', options) FROM (VALUES ('runs [[mock:hang]]', '{"max_concurrency": 1}'::jsonb),
		('waits', '{"max_concurrency": 1}'), ('free', '{}')) AS v (text, options);});
is_left('busy runs', '... then both');
is_queue('bounded key kp', 'one waits for a permit, behind one that waits for a request of its own');
begin('second', 'MEDIUM', server => 'pair');
is_queue('bounded key kp, second key kp', 'another session waits');
sleep 1.5; # those in line look once a second
is(queue(), 'bounded key kp, second key kp', 'gw_6_1: it keeps its place');
end('busy');
is_left('busy runs second', '... behind who has none');
end('second');
is_left('busy runs second free', '... and before its own that waits');
end_all();

# gw_6_4: who waits for another attempt ends at its deadline, whatever it waits for: a permit, weight,
# or the end of a request of its own
my $refuses = InferTest::Mock->new('fault_429=100', 'retry_after=-1');
my $refusing = $refuses->url . '/v1';
ask(qq{
	CREATE SERVER refuses FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$refusing', node 'c', admission_key 'kf');
	SELECT infer.create_model('then ' || server, task => 'complete', server => 'refuses', remote_model => 'm')
		FROM unnest('{narrow,other,alone}'::text[]) AS server;
	SELECT infer.add_placement('then ' || server, server, 'm') FROM unnest('{narrow,other,alone}'::name[]) AS server});
begin('busy', 'MEDIUM', server => 'narrow');
begin('epic', 'EPIC', server => 'other');
is_left('busy epic', 'a permit and the weight of a node are out');
my $pulse = InferPulse->new;
my $outcome = q{reason, execution, attempts, extract(epoch FROM elapsed)};
my $options = '"timeout": "3100ms", "route_prefs": {"prefer": ["refuses"]}';
my $began = time;
foreach ([ permit => 'narrow', 'MEDIUM' ], [ weight => 'other', 'LONG' ])
{
	my ($name, $server, $duration) = @$_;
	$session{$name} = InferProc->start($node, $name,
		qq{SELECT $outcome FROM infer.try_complete('then $server', '$name', '{}', '{$options, "duration": "$duration"}');\n});
}
$session{own} = InferProc->start($node, 'own', qq{
	SELECT (o).reason, (o).execution, (o).attempts, extract(epoch FROM (o).elapsed) FROM (SELECT infer.try_complete(model, text, '{}', options) AS o
		FROM (VALUES ('then alone', 'own', '{$options, "max_concurrency": 1}'::jsonb),
			('alone/m', 'before [[mock:hang]]', '{"timeout": "8s", "max_concurrency": 1}')) AS v (model, text, options) OFFSET 0) AS s;\n});
is_queue('weight node b, permit key kc', 'gw_6_4: two wait in line');
foreach (qw(permit weight own))
{
	my ($out, $err) = (delete $session{$_})->finish;
	my ($reason, $execution, $attempts, $seconds) = split /\|/, (split /\n/, $out)[0] // $err;
	is("$reason $execution $attempts", 'overloaded not_admitted 1', "gw_6_4: $_: it ends as its last attempt did");
	my $lost = $pulse->lost($began, time); # some of it before the first attempt, where they begin to count
	ok($seconds + $lost >= 3 && $seconds - $lost < 3.2, "gw_6_4: $_: ... at its deadline") or diag("after $seconds s, $lost s lost");
}
end_all();

# a scan keeps to it, and to what a reload says
my $scan = q{SELECT count(infer.complete('c', 'row ' || i, '{}', '{"duration": "LONG"}')) FROM generate_series(1, 40) AS i};
$mock->set('base_ms=10');
is(ask($scan), 40, 'a scan of LONG calls');
is($mock->stat('max_in_flight'), 2, '... has two in flight');
ask('ALTER SYSTEM SET pg_inference.max_duration_weight = 5');
ask('SELECT pg_reload_conf()');
InferTest::wait_until(60, sub { ask('SHOW pg_inference.max_duration_weight') == 5 });
$mock->reset;
my @both = InferProc::run_all($node, 'scan', "$scan;\n", "$scan;\n");
is(join(',', map { $_->[0] =~ s/\s//gr } @both), '40,40', 'two scans of LONG calls');
is($mock->stat('max_in_flight'), 5, '... have five in flight together');
is(queue(), 'nobody', 'and nobody waits');

# who holds weight and does not look loses it once its request must have ended
$mock->set('defaults', 'reply=echo');
$mock->reset;
$session{idle} = InferProc->start($node, 'idle', <<'SQL');
SELECT i, CASE WHEN i = 1 THEN pg_sleep(300) END FROM (SELECT i, infer.complete('c', 'idle ' || i || CASE WHEN i > 1 THEN ' [[mock:hang]]' ELSE '' END, '{}', '{"duration": "LONG", "timeout": "2s"}') AS c
  FROM generate_series(1, 40) AS i OFFSET 0) AS s WHERE c <> '';
SQL
ok(InferTest::wait_until(60, sub { ask(q{SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'}) == 1 }), 'a session does something else');
cmp_ok($mock->stat('in_flight'), '>', 0, '... with LONG calls in flight');
ask('ALTER SYSTEM SET pg_inference.max_duration_weight = 1');
ask('SELECT pg_reload_conf()');
InferTest::wait_until(60, sub { ask('SHOW pg_inference.max_duration_weight') == 1 });
is( ask(q{SELECT infer.complete('c', 'next', '{}', '{"duration": "LONG", "timeout": "30s"}')}),
	'next', '... which does not keep their weight for ever');
end_all();
done_testing();
