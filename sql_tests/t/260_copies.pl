# A second copy of a slow request: fail_P52 to fail_P56, as they show at the servers.
#
# A server is slow for as long as the test holds it back, so nothing depends on how long something takes. What earns a
# budget runs with a delay that no call reaches: else one that happens to be slow has a copy, and the budget is spent.
use strict;
use warnings;
use InferTest;
use InferProc;
use List::Util qw(max sum0);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = InferTest::new_node('copies', 'pg_inference.hedge_delay = 1h', 'autovacuum = off');
my %mock = map { $_ => InferTest::Mock->new('queue=100000', 'tokens=4') } qw(a b c);
my $hedge = '{"hedge": true}';
my $first_a = '{"hedge": true, "route_prefs": {"prefer": ["a"]}}';
my $soon = q{SET pg_inference.hedge_delay = '100ms';};
my $longer = 0.4; # than after which a copy would have left
my $model; # the last one that was made

sub ask { return $node->safe_psql('postgres', join("\n", @_)); }

ask('CREATE EXTENSION pg_inference');
ask("CREATE SERVER $_ FOREIGN DATA WRAPPER pg_inference OPTIONS (url '" . $mock{$_}->url . "/v1')")
  foreach sort keys %mock;

sub given
{
	my ($server, @settings) = @_;
	$mock{$server}->set('defaults', 'queue=100000', 'tokens=4', @settings);
	return;
}

sub reset_all { $_->reset foreach values %mock; return; }

# So many calls, each a statement of its own in one session.
sub calls
{
	my ($label, $n, $options, @more) = @_;
	my $sql = join('', map { "$_\n" } @more);
	$sql .= "SELECT CASE WHEN error IS NULL THEN 'ok' ELSE reason || ' ' || execution END, server, attempts, "
	  . "extract(epoch FROM elapsed) FROM infer.try_complete('$model', '$label $_', options => '$options');\n"
	  foreach 1 .. $n;
	return InferProc->start($node, $label, $sql);
}

# One line a call: outcome|server|attempts|seconds
sub outcomes { my ($out) = $_[0]->finish; return [ map { [ split /\|/ ] } split /\n/, $out ]; }

sub count { my ($rows, $code) = @_; return scalar grep { $code->($_) } @$rows; }

# A model on these servers, of which the first one answers so many calls: twenty pay for a copy.
sub model
{
	my ($name, $earns, @servers) = @_;
	$model = $name;
	ask("SELECT infer.create_model('$name', task => 'complete', server => '$servers[0]', remote_model => 'r')");
	ask("SELECT infer.add_placement('$name', '$_', 'r')") foreach @servers[ 1 .. $#servers ];
	given($_) foreach sort keys %mock;
	is(count(outcomes(calls("$name earns", $earns, $first_a)), sub { "@{$_[0]}[0 .. 2]" eq "ok $servers[0] 1" }),
		$earns, "$name: $earns answers of the first server");
	return;
}

# How often each text was received, by all servers together: { times => texts }
sub received
{
	my ($label) = @_;
	my (%times, %by);
	foreach my $mock (values %mock)
	{
		my $ledger = $mock->ledger;
		$times{$_} += $ledger->{$_}{seen} foreach grep { /^\Q$label\E / } keys %$ledger;
	}
	$by{$_}++ foreach values %times;
	return \%by;
}

sub events { return ask("SELECT hedges_sent, hedges_won FROM infer.stat_servers WHERE server = '$_[0]'"); }

# Says what may explain a failure.
sub or_tell
{
	my ($good, $rows) = @_;
	return $good if $good;
	diag(ask("SELECT '$model', * FROM infer.explain_route('$model', '{\"route_prefs\": {\"prefer\": [\"a\"]}}')"));
	diag(ask('SELECT server, state, in_flight, latency_p50, latency_p99, answers, errors, hedges_sent, hedges_won, late FROM infer.stat_servers'));
	foreach my $server (sort keys %mock)
	{
		my $stats = $mock{$server}->stats;
		diag("$server: " . join(', ', map { "$_ $stats->{$_}" } qw(requests ok failed faults abandoned in_flight open_connections)));
	}
	diag("elapsed: @$_") foreach @{ $rows // [] };
	return 0;
}

# Waits until the servers have so many requests under way, each: (a => 1, b => 0)
sub under_way
{
	my ($what, %n) = @_;
	return or_tell(ok(InferTest::wait_until(30, sub { !grep { $mock{$_}->stat('in_flight') != $n{$_} } keys %n }), $what));
}

# Waits until the sessions have heard the end of whatever that server did.
sub heard_of
{
	my ($server, $what) = @_;
	return or_tell(ok(InferTest::wait_until(30, sub { ask("SELECT in_flight FROM infer.stat_servers WHERE server = '$server'") eq '0' }), $what));
}

# One call, with what the servers do to it; waits until both of its requests are under way.
sub slow_call
{
	my ($label, $options, %does) = @_;
	given($_, @{ $does{$_} }) foreach keys %does;
	reset_all();
	my $call = calls($label, 1, $options, $soon);
	under_way("$label: both requests are under way", map { $_ => 1 } keys %does);
	return $call;
}

sub ends
{
	my ($call, $fields, $want, $what) = @_;
	my $rows = outcomes($call);
	return or_tell(is("@{ $rows->[0] }[@$fields]", $want, $what), $rows);
}

# ----------------------------------------------------------------------------------------------
# fail_P52: off by default, and never without a budget.

model('poor', 3, qw(a b));
given('a', 'hold=1');
reset_all();
my $call = calls('no money', 1, $first_a, $soon);
under_way('a slow call', a => 1);
sleep $longer;
$mock{a}->set('hold=0');
ends($call, [ 0 .. 2 ], 'ok a 1', 'fail_P53: with the option, but no budget, a slow request is waited for');
is_deeply(received('no money'), { 1 => 1 }, 'fail_P53: ... and sent once');

model('budget', 20, qw(a b));
given('a', 'hold=1');
reset_all();
$call = calls('off', 1, '{"route_prefs": {"prefer": ["a"]}}', $soon);
under_way('a slow call', a => 1);
sleep $longer;
$mock{a}->set('hold=0');
ends($call, [ 0 .. 2 ], 'ok a 1', 'fail_P52: without the option likewise');
is_deeply(received('off'), { 1 => 1 }, 'fail_P52: ... and sent once');

# ----------------------------------------------------------------------------------------------
# fail_P53: twenty answers have earned one copy.  fail_P54: the loser is cancelled; nothing of it is
# left, and it says that its server is slow.

my $latency = sub { return ask("SELECT substring(reason FROM 'latency ([0-9.]+) ms') FROM infer.explain_route('budget') WHERE server = 'a'") };
ok(InferTest::wait_until(30, sub { calls('quick', 16, '{"route_prefs": {"prefer": ["a"]}}')->finish; return $latency->() < 10 }),
	'the slow answers of the first server are forgotten');
my $attempts = sub { return ask("SELECT sum(attempts) FROM infer.stat_usage WHERE remote_model = 'r'") };
my ($before, $attempted) = ($latency->(), $attempts->());
given('a', 'hold=1');
reset_all();
$call = calls('spend', 2, $first_a, $soon);
or_tell(ok(InferTest::wait_until(30, sub { $mock{a}->stat('requests') == 2 }), 'fail_P52: the copy does not wait for the slow answer'));
ok(InferTest::wait_until(30, sub { $mock{a}->open_connections == 1 }), 'fail_P54: the server is rid of the first request');
is(ask('SELECT sum(in_flight), sum(outstanding) FROM infer.stat_servers'), '1|1', 'fail_P54: nothing of it is out');
is(ask('SELECT sum(in_flight) FROM infer.stat_admission'), 1, 'fail_P54: its permit is back');
cmp_ok($latency->(), '>=', $before + 50, 'fail_P54: what it has taken until then says how slow its server is');
sleep $longer;
$mock{a}->set('hold=0');
my $rows = outcomes($call);
or_tell(is(join(', ', map { "@$_[0 .. 2]" } @$rows), 'ok b 2, ok a 1',
	'fail_P53: the first one is answered by the copy, for the second there is no budget; fail_P54: both requests are told of'), $rows);
is_deeply(received('spend'), { 1 => 1, 2 => 1 }, 'fail_P55: one request, and one copy of one of them');
is(events('b'), '1|1', 'fail_P52: a copy is counted where it went, and that it won');
is($mock{a}->stat('abandoned'), 1, 'fail_P54: the loser was broken off');
is($attempts->() - $attempted, 3, 'fault_F54: the usage counts both');

# ----------------------------------------------------------------------------------------------
# fail_P52: a copy that finds no room when it is due leaves as soon as there is some, and is paid for then.

ask("CREATE SERVER narrow FOREIGN DATA WRAPPER pg_inference OPTIONS (url '" . $mock{c}->url . "/v1', max_concurrency '1')");
model('crowded', 20, qw(a narrow));
given($_, 'hold=1') foreach qw(a c);
reset_all();
my $occupant = InferProc->start($node, 'occupant', q{SELECT infer.complete('narrow/r', 'occupies') IS NOT NULL;});
under_way('the only permit of the other server is out', c => 1);
$call = calls('crowded out', 1, $first_a, $soon);
under_way('a slow call', a => 1);
sleep $longer;
is_deeply(received('crowded out'), { 1 => 1 }, 'fail_P52: without a permit there is no copy');
$mock{c}->set('hold=0');
is(($occupant->finish)[0], "t\n", '... until the other request has ended');
ok(InferTest::wait_until(20, sub { (received('crowded out')->{2} // 0) == 1 }), 'fail_P52: then it leaves');
$mock{a}->set('hold=0');
ends($call, [ 0 .. 2 ], 'ok narrow 2', 'fail_P52: ... and answers');

# ----------------------------------------------------------------------------------------------
# fail_P56: what may have run is not repeated, but a copy that is under way may still win.

model('blocked', 20, qw(a b));
$call = slow_call('lost', $first_a, a => [ 'hold=1', 'fault_lost=100' ], b => ['hold=1']);
$mock{a}->set('hold=0');
heard_of('a', 'fail_P56: the first request is lost');
under_way('fail_P56: ... the copy goes on', a => 0, b => 1);
$mock{b}->set('hold=0');
ends($call, [ 0 .. 2 ], 'ok b 2', 'fail_P56: ... and answers');
is_deeply(received('lost'), { 2 => 1 }, 'fail_P56: nothing else was sent');

model('blocked twice', 20, qw(a c));
$call = slow_call('both lost', $first_a, map { $_ => [ 'hold=1', 'fault_lost=100' ] } qw(a c));
$mock{a}->set('hold=0');
heard_of('a', 'fail_P56: the first request is lost');
$mock{c}->set('hold=0');
ends($call, [ 0, 2 ], 'disconnected maybe_executed 2', 'fail_P56: both lost: the call says that it may have been executed');
is_deeply(received('both lost'), { 2 => 1 }, 'fail_P55: and nothing was sent after that');

# ----------------------------------------------------------------------------------------------
# fail_P52: never for a retry.

model('retried', 20, qw(a b c));
given('a', 'fault_429=100', 'retry_after=0');
given($_, 'hold=1') foreach qw(b c);
reset_all();
$call = calls('again', 1, $first_a, $soon);
ok(InferTest::wait_until(30, sub { sum0(map { $mock{$_}->stat('in_flight') } qw(b c)) == 1 }), 'fail_P52: a refused request goes on to another server');
sleep $longer;
$mock{$_}->set('hold=0') foreach qw(b c);
ends($call, [ 0, 2 ], 'ok 2', 'fail_P52: ... which answers');
is(received('again')->{2}, 1, 'fail_P52: ... and has no copy there, however slow it is');

# ----------------------------------------------------------------------------------------------
# Broken off while both are under way.

model('cancelled', 20, qw(a b));
given($_, 'fault_hang=100') foreach qw(a b);
reset_all();
my $session = calls('broken', 1, $first_a, $soon, "SET pg_inference.request_timeout = '1h';");
under_way('both requests are under way', a => 1, b => 1);
my $begin = time;
ask("SELECT pg_cancel_backend(" . $session->backend . ")");
$session->finish;
note(sprintf 'cancelled after %.0f ms', 1000 * (time - $begin));
under_way('a cancel ends both', a => 0, b => 0);
is(ask('SELECT sum(in_flight), sum(outstanding) FROM infer.stat_servers'), '0|0', '... and gives back what they held');
is(ask('SELECT sum(in_flight) FROM infer.stat_admission'), 0, '... and their permits');

# ----------------------------------------------------------------------------------------------
# A server is taken out of service while both are under way: the other request goes on; with both
# servers gone, nobody knows what was done. LONG, so that both weigh on their nodes.

model('drained', 60, qw(a b));
my $long_a = '{"hedge": true, "duration": "LONG", "timeout": "1h", "route_prefs": {"prefer": ["a"]}}';

sub heavy_call
{
	my ($label, %does) = @_;
	my $call = slow_call($label, $long_a, %does);
	is(ask(q{SELECT string_agg(in_flight || ' ' || duration_weight, ', ') FROM infer.stat_nodes WHERE in_flight > 0}),
		'1 1, 1 1', "$label: ... and weigh on their nodes");
	return $call;
}

sub all_given_back
{
	my ($label) = @_;
	is(ask('SELECT sum(in_flight), sum(outstanding) FROM infer.stat_servers'), '0|0', "$label: nothing is out");
	is(ask('SELECT sum(in_flight), sum(duration_weight) FROM infer.stat_nodes'), '0|0', "$label: ... nor on a node");
	is(ask('SELECT sum(in_flight) FROM infer.stat_admission'), 0, "$label: ... no permit is out");
	under_way("$label: ... and the servers are rid of both", a => 0, b => 0);
	ask('SELECT infer.undrain()');
	given($_) foreach qw(a b);
	is(ask(q{SET statement_timeout = '60s';},
			q{SELECT infer.complete(server || '/r', 'heavy', options => '{"duration": "EPIC"}') IS NOT NULL FROM unnest('{a,b}'::text[]) AS server}),
		"t\nt", "$label: ... and work that needs all of a node may run");
	return;
}

my $cut = 'drained, ended_not_admitted, ended_maybe_executed, ended_executed, left_in_flight';
foreach my $server (qw(a b))
{
	my $other = $server eq 'a' ? 'b' : 'a';
	my $label = "fail_P64: server $server";
	$call = heavy_call($label, $server => ['fault_hang=100'], $other => ['hold=1']);
	is(ask("SELECT $cut FROM infer.drain('$server', '50 ms')"), 'f|0|1|0|0', "$label: its request is cut off");
	under_way("$label: ... the other one goes on", $server => 0, $other => 1);
	$mock{$other}->set('hold=0');
	ends($call, [ 0 .. 2 ], "ok $other 2", "$label: ... and answers");
	is_deeply(received($label), { 2 => 1 }, "$label: ... without another request");
	all_given_back($label);
}
$call = heavy_call('fail_P64: both', map { $_ => ['fault_hang=100'] } qw(a b));
is(ask("SELECT server_name, $cut FROM infer.drain(grace => '50 ms') WHERE server_name IN ('a', 'b') ORDER BY 1"),
	"a|f|0|1|0|0\nb|f|0|1|0|0", 'fail_P64: both are cut off');
ends($call, [ 0, 2 ], 'draining maybe_executed 2', 'fail_P64: ... and may have been executed');
all_given_back('fail_P64: both');

# ----------------------------------------------------------------------------------------------
# What one server refuses, another one may be doing: nothing is proved by the first one's word.

model('refused', 60, qw(a b));
$call = slow_call('only there', $first_a, a => ['hold=1'], b => [ 'hold=1', 'fault_400=100' ]);
$mock{b}->set('hold=0');
heard_of('b', 'fail_P56: the copy is refused');
under_way('fail_P56: ... the other request goes on', a => 1, b => 0);
$mock{a}->set('hold=0');
ends($call, [ 0 .. 2 ], 'ok a 2', 'fail_P56: ... and answers');
is_deeply(received('only there'), { 2 => 1 }, '... which was sent once');
$call = slow_call('and lost', $first_a, a => [ 'hold=1', 'fault_lost=100' ], b => [ 'hold=1', 'fault_400=100' ]);
$mock{b}->set('hold=0');
heard_of('b', 'fail_P21: the copy is refused');
$mock{a}->set('hold=0');
ends($call, [ 0, 2 ], 'disconnected maybe_executed 2', 'fail_P21: if that one is lost, nobody says that nothing ran');

# a batch that was lost is not sent again in halves because its copy was too large
given($_) foreach qw(a b);
ask(q{SELECT infer.create_model('halves', task => 'embed', server => 'a', remote_model => 'r');},
	q{SELECT infer.add_placement('halves', 'b', 'r')});
$model = 'halves';
ask(qq{SELECT infer.embed('halves', 'lay by ' || i, options => '$first_a') FROM generate_series(1, 60) i});
ask(qq{SELECT infer.embed('halves', 'lay by too', options => '$first_a')}) foreach 1 .. 30;
given('a', 'hold=1', 'fault_lost=100');
given('b', 'hold=1', 'fault_413=100');
reset_all();
$call = InferProc->start($node, 'halves', $soon . qq{SELECT DISTINCT (o).reason, (o).execution, (o).attempts
	FROM (SELECT infer.try_embed('halves', 'half ' || i, options => '$first_a') AS o FROM generate_series(1, 4) i OFFSET 0) s;});
under_way('a batch and its copy', a => 1, b => 1);
$mock{a}->set('hold=0');
heard_of('a', 'fail_P55: the batch is lost');
$mock{b}->set('hold=0');
$rows = outcomes($call);
or_tell(is("@{ $rows->[0] }", 'request_too_large maybe_executed 2', 'fail_P55: what was lost, and refused by another server, ends there'));
is_deeply(received('half'), { 2 => 4 }, '... and is not sent in parts');

# ----------------------------------------------------------------------------------------------
# A scan: each row has one answer, however many copies there were, and they are few.

model('scan', 0, qw(a b c));
given('a', 'base_ms=20', 'fault_late=20', 'late_ms=1500');
given($_, 'base_ms=20') foreach qw(b c);
reset_all();
is(ask($soon, "SELECT count(*), count(DISTINCT i), count(r) FROM (SELECT i,
		infer.complete('scan', 'row ' || i, options => '$hedge') AS r FROM generate_series(1, 1200) i) s"),
	'1200|1200|1200', 'fail_P54: each row is answered once');
my $by = received('row');
note(join ', ', map { "$by->{$_} texts received $_ times" } sort keys %$by);
is(max(keys %$by), 2, 'fail_P55: no text was sent more than twice');
cmp_ok($by->{2}, '<=', 60, 'fail_P53: no more than one request in twenty was sent twice');

# ----------------------------------------------------------------------------------------------
# One of three servers is twenty times slower (by hand: it is a measurement).

if ($ENV{PG_INFERENCE_LONG})
{
	model('tail', 0, qw(a b c));
	given($_, 'base_ms=50') foreach qw(a b c);
	outcomes(calls('before', 60, $hedge));
	my $delay = "SET pg_inference.hedge_delay = '10ms';";
	given('a', 'base_ms=1000');
	reset_all();
	my %sorted;
	foreach my $option ('{"hedge": false}', $hedge)
	{
		$rows = outcomes(calls("tail $option", 500, $option, $delay));
		is(count($rows, sub { $_[0][0] eq 'ok' }), 500, "$option: all answered");
		$sorted{$option} = [ sort { $a <=> $b } map { $_->[3] * 1000 } @$rows ];
		note(sprintf '%s: p50 %.0f ms, p99 %.0f ms, longest %.0f ms, %d copies', $option,
			(map { $sorted{$option}[ $_ * 5 - 1 ] } 50, 99, 100), sum0(map { $_->[2] - 1 } @$rows));
	}
	cmp_ok($sorted{$hedge}[494], '<=', 2 * $sorted{$hedge}[249], 'p99 is at most twice the p50');
	cmp_ok(sum0(map { $_->[2] - 1 } @$rows), '<=', 25, 'at most 5 % more requests');
}

$node->stop;
done_testing();
