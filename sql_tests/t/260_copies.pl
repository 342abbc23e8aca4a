# A second copy of a slow request: fail_P52 to fail_P56, as they show at the servers.
use strict;
use warnings;
use InferTest;
use InferProc;
use List::Util qw(max sum0);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = InferTest::new_node('copies', 'pg_inference.hedge_delay = 200ms', 'autovacuum = off');
my %mock = map { $_ => InferTest::Mock->new('queue=100000', 'tokens=4') } qw(a b c);

sub ask { return $node->safe_psql('postgres', join("\n", @_)); }

ask('CREATE EXTENSION pg_inference');
ask("CREATE SERVER $_ FOREIGN DATA WRAPPER pg_inference OPTIONS (url '" . $mock{$_}->url . "/v1')")
  foreach sort keys %mock;

# A model on these servers; a new one has no budget of copies yet.
sub model
{
	my ($name, @servers) = @_;
	ask("SELECT infer.create_model('$name', task => 'complete', server => '$servers[0]', remote_model => 'r')");
	ask("SELECT infer.add_placement('$name', '$_', 'r')") foreach @servers[ 1 .. $#servers ];
	return;
}

sub given
{
	my ($server, @settings) = @_;
	$mock{$server}->set('defaults', 'queue=100000', 'tokens=4', @settings);
	return;
}

sub reset_all { $_->reset foreach values %mock; return; }

# So many calls, each a statement of its own in one session; returns its output.
sub calls
{
	my ($model, $label, $n, $options, @more) = @_;
	my $sql = join('', map { "$_\n" } @more);
	$sql .= "SELECT CASE WHEN error IS NULL THEN 'ok' ELSE reason || ' ' || execution END, server, attempts, "
	  . "extract(epoch FROM elapsed) FROM infer.try_complete('$model', '$label $_', options => '$options');\n"
	  foreach 1 .. $n;
	return InferProc->start($node, $label, $sql);
}

# One line a call: outcome|server|attempts|seconds
sub outcomes { my ($out) = $_[0]->finish; return [ map { [ split /\|/ ] } split /\n/, $out ]; }

sub count { my ($rows, $code) = @_; return scalar grep { $code->($_) } @$rows; }

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

my $hedge = '{"hedge": true}';
my $first_a = '{"hedge": true, "route_prefs": {"prefer": ["a"]}}';

# ----------------------------------------------------------------------------------------------
# fail_P52: off by default, and never without a budget.

model('plain', qw(a b));
given('a', 'base_ms=200');
my $rows = outcomes(calls('plain', 'off', 3, '{"route_prefs": {"prefer": ["a"]}}'));
is(count($rows, sub { $_[0][0] eq 'ok' && $_[0][1] eq 'a' && $_[0][2] == 1 }),
	3, 'fail_P52: without the option a slow request is waited for');
is_deeply(received('off'), { 1 => 3 }, 'fail_P52: ... and sent once');
$rows = outcomes(calls('plain', 'poor', 3, $first_a));
is_deeply(received('poor'), { 1 => 3 }, 'fail_P53: with the option, but no budget, likewise');

# ----------------------------------------------------------------------------------------------
# fail_P53: twenty answers earn one copy.

model('budget', qw(a b));
given('a');
$rows = outcomes(calls('budget', 'earn', 20, $first_a));
is(count($rows, sub { $_[0][0] eq 'ok' && $_[0][1] eq 'a' }), 20, 'fail_P53: twenty answers of the first server');
given('a', 'base_ms=2000');
reset_all();
$rows = outcomes(calls('budget', 'spend', 2, $first_a));
is(count($rows, sub { $_[0][0] eq 'ok' }), 2, 'fail_P53: two calls of a server that is slow now');
is("@{[ map { $_->[1] } @$rows ]}", 'b a', 'fail_P53: the first one is answered by the copy, for the second there is no budget');
is($rows->[0][2], 2, 'fail_P54: both requests are told of');
cmp_ok($rows->[0][3], '<', 1.5, 'fail_P52: the copy did not wait for the slow answer');
is_deeply(received('spend'), { 1 => 1, 2 => 1 }, 'fail_P55: one request, and one copy of one of them');
is(events('b'), '1|1', 'fail_P52: a copy is counted where it went, and that it won');
is(ask("SELECT sum(attempts) FROM infer.stat_usage WHERE remote_model = 'r'"),
	sum0(map { $_->[2] } @$rows) + 26, 'fault_F54: the usage counts both');

# ----------------------------------------------------------------------------------------------
# fail_P54: the loser is cancelled; nothing of it is left, and it says that its server is slow.

ok(InferTest::wait_until(30, sub { $mock{a}->stat('in_flight') == 0 }), 'fail_P54: the server is rid of the other request');
is(ask('SELECT sum(in_flight), sum(outstanding) FROM infer.stat_servers'), '0|0', 'fail_P54: nothing is out');
is(ask('SELECT sum(in_flight) FROM infer.stat_admission'), 0, 'fail_P54: no permit is out');

# ----------------------------------------------------------------------------------------------
# fail_P56: what may have run is not repeated, but a copy that is under way may still win.

model('blocked', qw(a b));
given('a');
outcomes(calls('blocked', 'save', 40, $first_a));
given('a', 'base_ms=700', 'fault_lost=100');
given('b', 'base_ms=1500');
reset_all();
$rows = outcomes(calls('blocked', 'lost', 1, $first_a));
is("@{ $rows->[0] }[0 .. 2]", 'ok b 2', 'fail_P56: the copy answers after the first request was lost');
is_deeply(received('lost'), { 2 => 1 }, 'fail_P56: nothing else was sent');
model('blocked twice', qw(a c));
given('a');
outcomes(calls('blocked twice', 'save again', 40, $first_a));
given('a', 'base_ms=700', 'fault_lost=100');
given('c', 'base_ms=800', 'fault_lost=100');
$rows = outcomes(calls('blocked twice', 'both lost', 1, $first_a));
is("@{ $rows->[0] }[0, 2]", 'disconnected maybe_executed 2', 'fail_P56: both lost: the call says that it may have been executed');
is_deeply(received('both lost'), { 2 => 1 }, 'fail_P55: and nothing was sent after that');

# ----------------------------------------------------------------------------------------------
# fail_P52: never for a retry.

model('retried', qw(a b c));
given('a');
given('b');
outcomes(calls('retried', 'keep', 40, $first_a));
given('a', 'fault_429=100', 'retry_after=0');
given($_, 'base_ms=400') foreach qw(b c);
reset_all();
$rows = outcomes(calls('retried', 'again', 1, $first_a));
is("@{ $rows->[0] }[0, 2]", 'ok 2', 'fail_P52: a refused request goes on to another server');
is(received('again')->{2}, 1, 'fail_P52: ... and has no copy there, however slow it is');

# ----------------------------------------------------------------------------------------------
# Broken off while both are under way.

model('cancelled', qw(a b));
given($_) foreach qw(a b c);
outcomes(calls('cancelled', 'store', 40, $first_a));
given($_, 'fault_hang=100') foreach qw(a b);
reset_all();
my $session = calls('cancelled', 'broken', 1, $first_a, "SET pg_inference.request_timeout = '60s';");
ok(InferTest::wait_until(30, sub { sum0(map { $mock{$_}->stat('in_flight') } qw(a b)) == 2 }), 'both requests are under way');
my $begin = time;
ask("SELECT pg_cancel_backend(" . $session->backend . ")");
$session->finish;
note(sprintf 'cancelled after %.0f ms', 1000 * (time - $begin));
ok(InferTest::wait_until(30, sub { sum0(map { $mock{$_}->stat('in_flight') } qw(a b)) == 0 }), 'a cancel ends both');
is(ask('SELECT sum(in_flight), sum(outstanding) FROM infer.stat_servers'), '0|0', '... and gives back what they held');
is(ask('SELECT sum(in_flight) FROM infer.stat_admission'), 0, '... and their permits');

# ----------------------------------------------------------------------------------------------
# A server is taken out of service while both are under way: the other request goes on; with both
# servers gone, nobody knows what was done. LONG, so that both weigh on their nodes.

model('drained', qw(a b));
my $long_a = '{"hedge": true, "duration": "LONG", "timeout": "1min", "route_prefs": {"prefer": ["a"]}}';
given($_) foreach qw(a b);
outcomes(calls('drained', 'set aside', 80, $long_a));

sub both_under_way
{
	my ($label, %does) = @_;
	given($_, $does{$_}) foreach qw(a b);
	reset_all();
	my $call = calls('drained', $label, 1, $long_a);
	ok(InferTest::wait_until(30, sub { ask(q{SELECT string_agg(in_flight || ' ' || duration_weight, ', ') FROM infer.stat_nodes WHERE in_flight > 0}) eq '1 1, 1 1' }),
		"$label: both requests are under way");
	return $call;
}

sub all_given_back
{
	my ($label) = @_;
	is(ask('SELECT sum(in_flight), sum(outstanding) FROM infer.stat_servers'), '0|0', "$label: nothing is out");
	is(ask('SELECT sum(in_flight), sum(duration_weight) FROM infer.stat_nodes'), '0|0', "$label: ... nor on a node");
	is(ask('SELECT sum(in_flight) FROM infer.stat_admission'), 0, "$label: ... no permit is out");
	ok(InferTest::wait_until(30, sub { $mock{a}->stat('in_flight') + $mock{b}->stat('in_flight') == 0 }),
		"$label: ... and the servers are rid of both");
	ask('SELECT infer.undrain()');
	given($_) foreach qw(a b);
	is(ask(q{SET statement_timeout = '20s';},
			q{SELECT infer.complete(server || '/r', 'heavy', options => '{"duration": "EPIC"}') IS NOT NULL FROM unnest('{a,b}'::text[]) AS server}),
		"t\nt", "$label: ... and work that needs all of a node may run");
	return;
}

my $cut = 'drained, ended_not_admitted, ended_maybe_executed, ended_executed, left_in_flight';
foreach my $server (qw(a b))
{
	my $other = $server eq 'a' ? 'b' : 'a';
	my $label = "fail_P64: server $server";
	my $call = both_under_way($label, $server => 'fault_hang=100', $other => 'base_ms=3000');
	is(ask("SELECT $cut FROM infer.drain('$server', '50 ms')"), 'f|0|1|0|0', "$label: its request is cut off");
	$rows = outcomes($call);
	is("@{ $rows->[0] }[0 .. 2]", "ok $other 2", "$label: ... and the other one answers");
	is_deeply(received($label), { 2 => 1 }, "$label: ... without another request");
	all_given_back($label);
}
my $drained = both_under_way('fail_P64: both', map { $_ => 'fault_hang=100' } qw(a b));
is(ask("SELECT server_name, $cut FROM infer.drain(grace => '50 ms') WHERE server_name IN ('a', 'b') ORDER BY 1"),
	"a|f|0|1|0|0\nb|f|0|1|0|0", 'fail_P64: both are cut off');
$rows = outcomes($drained);
is("@{ $rows->[0] }[0, 2]", 'draining maybe_executed 2', 'fail_P64: ... and may have been executed');
all_given_back('fail_P64: both');

# ----------------------------------------------------------------------------------------------
# What one server refuses, another one may be doing: nothing is proved by the first one's word.

model('refused', qw(a b));
given($_) foreach qw(a b);
outcomes(calls('refused', 'put by', 60, $first_a));
given('a', 'base_ms=1000');
given('b', 'fault_400=100');
reset_all();
$rows = outcomes(calls('refused', 'only there', 1, $first_a));
is("@{ $rows->[0] }[0 .. 2]", 'ok a 2', 'fail_P56: a copy that is refused takes nothing from the other request');
is_deeply(received('only there'), { 2 => 1 }, '... which was sent once');
given('a', 'base_ms=1000', 'fault_lost=100');
$rows = outcomes(calls('refused', 'and lost', 1, $first_a));
is("@{ $rows->[0] }[0, 2]", 'disconnected maybe_executed 2', 'fail_P21: if that one is lost, nobody says that nothing ran');

# a batch that was lost is not sent again in halves because its copy was too large
ask(q{SELECT infer.create_model('halves', task => 'embed', server => 'a', remote_model => 'r');},
	q{SELECT infer.add_placement('halves', 'b', 'r')});
given($_) foreach qw(a b);
ask(qq{SELECT infer.embed('halves', 'lay by ' || i, options => '$first_a') FROM generate_series(1, 60) i});
ask(qq{SELECT infer.embed('halves', 'lay by too', options => '$first_a')}) foreach 1 .. 30;
given('a', 'base_ms=700', 'fault_lost=100');
given('b', 'base_ms=1500', 'fault_413=100');
reset_all();
is(ask(qq{SELECT DISTINCT (o).reason, (o).execution, (o).attempts FROM (SELECT infer.try_embed('halves', 'half ' || i,
		options => '$first_a') AS o FROM generate_series(1, 4) i OFFSET 0) s}),
	'request_too_large|maybe_executed|2', 'fail_P55: what was lost, and refused by another server, ends there');
is_deeply(received('half'), { 2 => 4 }, '... and is not sent in parts');

# ----------------------------------------------------------------------------------------------
# A scan: each row has one answer, however many copies there were, and they are few.

model('scan', qw(a b c));
given('a', 'base_ms=20', 'fault_late=20', 'late_ms=1500');
given($_, 'base_ms=20') foreach qw(b c);
reset_all();
is(ask("SELECT count(*), count(DISTINCT i), count(r) FROM (SELECT i,
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
	model('tail', qw(a b c));
	given($_, 'base_ms=50') foreach qw(a b c);
	outcomes(calls('tail', 'before', 60, $hedge));
	my $delay = "SET pg_inference.hedge_delay = '10ms';";
	given('a', 'base_ms=1000');
	reset_all();
	my %sorted;
	foreach my $option ('{"hedge": false}', $hedge)
	{
		$rows = outcomes(calls('tail', "tail $option", 500, $option, $delay));
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
