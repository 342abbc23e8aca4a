# Every claim is true, of a model on several servers: a randomised run over all faults at once, with
# servers that stand still, vanish and come back, changes of the catalogs, and a gateway that is
# ended again and again.  Judged by what the servers know, all together: fail_P19, fail_P21,
# fail_P46, fail_P55, fail_P76.
#
# PG_INFERENCE_LONG=1 makes ten times as many calls, PG_INFERENCE_SEED=N makes others.
use strict;
use warnings;
use InferFront;
use InferLedger;
use InferProc;
use InferPulse;
use InferTest;
use List::Util qw(min sum0);
use Test::More;
use Time::HiRes qw(sleep time);

my $seed = $ENV{PG_INFERENCE_SEED} // 20261130;
my $long = $ENV{PG_INFERENCE_LONG} ? 10 : 1;
my $sessions = 4;
my $pulse = InferPulse->new;
note("seed $seed");
my $dice = $seed;
sub draw { return InferLedger::draw(\$dice, $_[0]); }

my %faults = %InferLedger::faults;
my @names = qw(a1 a2 b1 b2);
my $n = 0;
my %mock = map { $_ => InferTest::Mock->new('seed=' . ($seed + ++$n), @InferLedger::settings) } @names;
my %front = map { $_ => InferFront->new($mock{$_}->url) } qw(a1 b2);
my $node = InferTest::new_node(
	'fleet', 'max_connections = 30',
	'pg_inference.gateway = on', 'pg_inference.probe_interval = 500ms',
	'pg_inference.failure_cooldown = 20ms', 'pg_inference.all_failed_wait = 100ms',
	'pg_inference.limiter_min_limit = 4', 'pg_inference.hedge_delay = 0',
	'pg_inference.request_timeout = 400ms');

sub ask { return $node->safe_psql('postgres', join("\n", @_)); }

my $sql = q{CREATE EXTENSION pg_inference;
	SELECT infer.create_model('m', 'embed'), infer.create_model('c', 'complete');};
foreach my $name (@names)
{
	my $url = ($front{$name} // $mock{$name})->url;
	my $place = substr($name, 0, 1);
	$sql .= qq{CREATE SERVER $name FOREIGN DATA WRAPPER pg_inference
		OPTIONS (url '$url/v1', node '$place', max_concurrency '16', max_batch_size '8');
		SELECT infer.add_placement(m, '$name', 'mock') FROM (VALUES ('m'), ('c')) v (m);};
}
ask($sql);
InferLedger::create_claims($node);

# ----------------------------------------------------------------------------------------------
# What sessions ask.

my @routes = (undef, undef, undef, '"nodes": ["b"]', '"route_prefs": {"prefer": ["b2"], "avoid": ["a1"]}',
	'"route_prefs": {"exclude": ["a2"]}', '"duration": "LONG"', '"priority": "HIGH"');

sub statements
{
	my ($from, $how_many) = @_;
	my @statements = InferLedger::plan($seed + $from, $how_many);
	foreach my $s (@statements)
	{
		my $route = $routes[ draw(scalar @routes) ];
		$s->{number} += $from;
		$s->{trusted} = 0; # there are models only
		$s->{copies} = draw(2);
		$s->{members} = [ $s->{copies} ? '"hedge": true' : '"hedge": false', $route ? $route : () ];
	}
	return @statements;
}

# Scripts of statements, each for one session; all its requests are gone at its end.
sub scripts
{
	my ($parts, @statements) = @_;
	return map {
		my $part = $_;
		join('', map { InferLedger::script($_) } grep { $_->{number} % $parts == $part } @statements)
		  . "SELECT 'kept', infer.retained_bytes();\n";
	} 0 .. $parts - 1;
}

# ----------------------------------------------------------------------------------------------
# What happens to them meanwhile.

my (%happened, %held, @ends, $victim, @victims);
my $since = time;

sub faulty { my ($mock) = @_; $mock->set(map { "fault_$_=$faults{$_}" } sort keys %faults); return; }

# A session of its own, that is cancelled or terminated: how long does that take?
sub end_victim
{
	my ($how) = @_;
	return unless $victim;
	my $function = "pg_${how}_backend";
	my $pid = $victim->backend;
	my $begin = time;
	ask("SELECT $function($pid)");
	$victim->finish(60);
	push @ends, 1000 * $pulse->since($begin);
	undef $victim;
	return;
}

sub begin_victim
{
	my $number = 100_000 + @victims;
	my ($s) = statements($number, 1);
	@$s{qw(kind end enable rows poison)} = ('c', 'stored', 'on', 5000, {});
	push @victims, $s;
	$victim = InferProc->start($node, "victim$number", "\\set ON_ERROR_STOP 1\n" . InferLedger::script($s));
	$victim->backend;
	return;
}

# Each may return when its end is due, and what that is.
my %events = (
	'a server stands still' => sub {
		my $pid = $mock{ $names[ draw(4) ] }->pid;
		kill 'STOP', $pid;
		return (0.1 + draw(4) / 10, sub { kill 'CONT', $pid; });
	},
	'a server vanishes' => sub {
		my $front = $front{ (sort keys %front)[ draw(2) ] };
		$front->kill;
		return (0.1 + draw(5) / 10, sub { $front->start; });
	},
	'the gateway ends' => sub {
		ask(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'pg_inference gateway'});
		return (1, sub { });
	},
	'a statement is cancelled' => sub {
		ask(q{SELECT pg_cancel_backend(pid) FROM (SELECT pid FROM pg_stat_activity
			WHERE application_name LIKE 'fleet_' AND state = 'active' ORDER BY random() LIMIT 1) s});
		return (0.3, sub { });
	},
	'a session is cancelled' => sub { end_victim('cancel'); begin_victim(); return; },
	'a session is terminated' => sub { end_victim('terminate'); begin_victim(); return; },
	'the set of placements changes' => sub {
		ask(q{SELECT infer.alter_placement('c', 'a1', weight => } . (1 + draw(3)) . ')');
		return;
	},
	'a placement comes and goes' => sub {
		ask(q{SELECT infer.drop_placement(m, 'b1') FROM (VALUES ('m'), ('c')) v (m)});
		return (0.2, sub { ask(q{SELECT infer.add_placement(m, 'b1', 'mock') FROM (VALUES ('m'), ('c')) v (m)}); });
	},
	'a server drains' => sub {
		ask(q{SELECT infer.drain('a2', '0 seconds')});
		return (0.2, sub { ask(q{SELECT infer.undrain('a2')}); });
	},
	'an option changes' => sub {
		ask(q{ALTER SERVER b1 OPTIONS (SET max_concurrency '} . (8 + draw(8)) . q{')});
		return;
	});

# Ends what is due, or all.
sub end_events
{
	my ($all) = @_;
	foreach my $kind (sort keys %held)
	{
		next unless $all || $held{$kind}[0] <= time;
		$held{$kind}[1]->();
		delete $held{$kind};
	}
	return;
}

sub begin_event
{
	my @kinds = grep { !$held{$_} } sort keys %events;
	my $kind = $kinds[ draw(scalar @kinds) ];
	my ($seconds, $end) = $events{$kind}->();
	$happened{$kind}++;
	$held{$kind} = [ time + $seconds, $end ] if $end;
	return;
}

my @statements = statements(0, 110 * $long);
faulty($_) foreach values %mock;
my @running = map { InferProc->start($node, 'fleet' . $_->[0], $_->[1]) }
  do { my $i = 0; map { [ $i++, $_ ] } scripts($sessions, @statements) };
$_->backend foreach @running;
my $quiet = q{SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'fleet_'};
while (ask($quiet) > 0)
{
	begin_event();
	sleep 0.05;
	end_events(0);
}
my @results = map { [ $_->finish(600) ] } @running;
end_events(1);
end_victim('cancel');
note(sprintf 'ran for %.1f s', time - $since);

# ----------------------------------------------------------------------------------------------
# All is over, and was as it was said to be.

ok(InferTest::wait_until(60, sub { sum0(map { $_->stat('in_flight') } values %mock) == 0 }), 'the servers are done');
my $found = InferLedger::judge([ @statements, @victims ],
	InferLedger::claims($node), InferLedger::together(map { $_->ledger } values %mock));
note("$found->{calls} calls, $found->{stored} of them with a claim");
is(scalar @{ $found->{violations} }, 0, 'fail_P19, fail_P21, fail_P55: what was claimed is what the servers know')
  or diag(join("\n", @{ $found->{violations} }[ 0 .. min(20, $#{ $found->{violations} }) ]));
my %rows = map { $_->{number} => $_->{rows} } @statements;
is(ask('SELECT count(*) FROM (SELECT statement, line FROM claims GROUP BY 1, 2 HAVING count(*) > 1) s'),
	0, 'no row has two answers');
my @lost = grep { my ($s, $n) = split /\|/; $n != ($rows{$s} // $n) }
  split /\n/, ask('SELECT statement, count(*) FROM claims GROUP BY 1');
is("@lost", '', 'no row is lost');
my @errors = map { /^psql:\S+ ((?:ERROR|FATAL|PANIC|WARNING):  .*)/mg } map { $_->[1] } @results;
is(join("\n", grep { !/^ERROR:  (57014|RXALN|25P02):|gateway/ } @errors), '', 'no other error');
is(join(' ', map { $_->[0] =~ /^kept\|(.*)$/m } @results), join(' ', ('0') x $sessions), 'nothing is retained');

sub at_rest
{
	return ask(
		q{SELECT coalesce(sum(in_flight), 0), coalesce(sum(waiting), 0) FROM infer.stat_admission},
		q{; SELECT sum(in_flight), sum(outstanding), sum(waiting) FROM infer.stat_servers},
		q{; SELECT sum(in_flight), sum(duration_weight) FROM infer.stat_nodes},
		q{; SELECT count(*) FROM infer.stat_queue});
}
my $zero = "0|0\n0|0|0\n0|0\n0";
ok(InferTest::wait_until(10, sub { at_rest() eq $zero }), 'fail_P46: no permit, no reservation, no weight is out, and nobody waits')
  or diag(at_rest());

@ends = sort { $a <=> $b } @ends;
note(sprintf '%d sessions were ended, in %.0f ms (median), %.0f ms (longest)', scalar @ends, $ends[ @ends / 2 ], $ends[-1]);
cmp_ok($ends[ @ends / 2 ], '<', 200, 'a cancel does not wait for servers');
cmp_ok($ends[-1], '<', 5000, '... whatever they do');

# fail_P76: what did not happen was not tested.
cmp_ok($happened{$_} // 0, '>', 0, "fail_P76: $_") foreach sort keys %events;
my @sometimes = (
	'claim: not_admitted', 'claim: maybe_executed', 'claim: executed', 'a value after a refusal', 'a value after a loss',
	'a refusal after a loss keeps the doubt', 'executed, and lost', 'maybe executed, and was not', 'executed twice',
	'executed for nobody', 'a statement was broken off', 'a batch was split');
cmp_ok($found->{seen}{$_} // 0, '>', 0, "fail_P76: it happened: $_") foreach @sometimes;
is($found->{seen}{'reason: internal'}, undef, 'no failure is our own');
note('reasons: ' . join(', ', map { "$_ $found->{seen}{$_}" } grep { /^reason/ } sort keys %{ $found->{seen} }));
my ($sent, $won) = split /\|/, ask('SELECT sum(hedges_sent), sum(hedges_won) FROM infer.stat_servers');
note("$sent copies, $won of them won");
cmp_ok($won, '>', 0, 'fail_P76: a copy has won');

# And all of it works as before.
$_->set(map { "fault_$_=0" } keys %faults) foreach values %mock;
my $fresh = 0;
ok(InferTest::wait_until(20, sub {
	$fresh++;
	return ask(qq{SELECT count(*) FROM (SELECT infer.try_complete('c', 'after $fresh ' || i) AS o
		FROM generate_series(1, 40) i OFFSET 0) s WHERE (o).value IS NOT NULL}) == 40; }),
	'without faults all calls are answered');

$node->stop;
done_testing();
