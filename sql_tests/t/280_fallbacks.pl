# Fallback models: who answers when none of a model's own servers can be asked, and who must not. gw_8.
use strict;
use warnings;
use InferProc;
use InferTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# own1, own2: the model's; second, third: those of its fallbacks
my @names = qw(own1 own2 second third);
my %mock = map { $_ => InferTest::Mock->new } @names;
my %port = map { $_ => $mock{$_}->url =~ /:(\d+)$/ } @names;
my %dims = (own1 => 4, own2 => 4, second => 6, third => 4);
my $node = InferTest::new_node('fallbacks', 'pg_inference.streaming_mode = per_row',
	'pg_inference.failure_cooldown = 100ms', 'pg_inference.gateway = on');

sub ask { return $node->safe_psql('postgres', join("\n", @_)); }

sub error { return InferTest::error($node, @_); }

sub given
{
	my (%settings) = @_;
	foreach my $name (@names)
	{
		$mock{$name} //= InferTest::Mock->new('-p', $port{$name});
		$mock{$name}->set('defaults', 'tokens=4', "dim=$dims{$name}", @{ $settings{$name} // [] });
		$mock{$name}->reset;
	}
	return;
}

sub down
{
	foreach my $name (@_)
	{
		$mock{$name}->stop;
		delete $mock{$name};
	}
	return;
}

# requests that each mock had, "own1 own2 second third"; - = it is down
sub requests { return join(' ', map { $mock{$_} ? $mock{$_}->stat('requests') : '-' } @names); }

# Servers at the four addresses, of which nothing is known yet, and models of task $task on them:
# "main$n" falls back on "second$n", then "third$n". Returns $n.
my $fresh = 0;

sub models
{
	my ($task) = @_;
	my $n = ++$fresh;
	ask(map {
			my $url = "http://127.0.0.1:$port{$_}/v1";
			qq{CREATE SERVER "$_.$n" FOREIGN DATA WRAPPER pg_inference
				OPTIONS (url '$url', node '$_.$n', admission_key '$_.$n');} } @names);
	ask(qq{SELECT infer.create_model('third$n', '$task', 'third.$n', 'the third');
		SELECT infer.create_model('second$n', '$task', 'second.$n', 'the second', input_price => 1e6,
			output_price => 2e6);
		SELECT infer.create_model('main$n', '$task', 'own1.$n', 'mine', fallbacks => '{second$n,third$n}');
		SELECT infer.add_placement('main$n', 'own2.$n');});
	return $n;
}

# Prefers own1 to own2.
sub in_order
{
	my ($n) = @_;
	return qq{"route_prefs": {"prefer": ["own1.$n", "own2.$n"]}};
}

sub outcome
{
	my ($columns, $n, $text, @options) = @_;
	my $options = join(', ', @options, in_order($n));
	return ask("SELECT $columns FROM infer.try_complete('main$n', '$text', '{}', '{$options}')");
}

sub failure
{
	my ($n, $text, @options) = @_;
	my $options = join(', ', @options, in_order($n));
	return error("SELECT infer.complete('main$n', '$text', '{}', '{$options}')");
}

ask('CREATE EXTENSION pg_inference;');

# ----------------------------------------------------------------------------------------------
# The model's own servers come first; without them its fallbacks, in their order.

given();
my $n = models('complete');
is(outcome('server, attempts', $n, 'well'), "own1.$n|1", 'gw_8: the model is asked on its own servers');
down('own1');
is(outcome('server', $n, 'one is down'),
	"own2.$n", 'gw_8: as long as one of them is there, no fallback is asked');
is(requests(), '- 1 0 0', '... indeed');
my $before = $n;
$n = models('complete');
down('own2');
is(outcome('server, reason, attempts', $n, 'both are down'),
	"second.$n||3", 'gw_8: when none is, the first fallback answers, and is named');
is(requests(), '- - 1 0', '... and the second one is not asked');
is( ask(q{SELECT server, remote_model, requests, calls, input_tokens, output_tokens, cost, unpriced
		FROM infer.stat_usage WHERE server LIKE 'second%'}),
	"second.$n|the second|1|1|4|4|12|0", 'gw_8: what it takes is counted as its own, at its prices');
is( ask(q{SELECT server, remote_model, calls, cost, unpriced
		FROM infer.stat_usage WHERE server LIKE 'own%' AND input_tokens > 0 ORDER BY server}),
	"own1.$before|mine|1||1\nown2.$before|mine|1||1", '... and what the model itself took, as the model\'s');
is(ask(qq{SELECT count(infer.complete('main$n', 'scan ' || i)) FROM generate_series(1, 40) i}),
	40, 'gw_8: so are all rows of a scan');
down('second');
is(outcome('server, reason', $n, 'three are down'), "third.$n|", 'gw_8: then the second fallback');
like(
	ask("SELECT string_agg(infer.complete('main$n', 'again ' || i), '') FROM generate_series(1, 3) i"),
	qr/./, '... in every call');
down('third');
my $all = models('complete');
like(
	failure($all, 'all are down', '"max_attempts": 4'),
	qr/RNCON: call of model "main$all" on server "third\.$all" failed.*after 4 attempts.*Servers tried: own1\.$all \(connect_failed, not_admitted\), own2\.$all \(connect_failed, not_admitted\), second\.$all \(connect_failed, not_admitted\), third\.$all \(connect_failed, not_admitted\)\./s,
	'gw_8: when all are down the error tells of all');
given();
ok( InferTest::wait_until(20, sub { outcome('server', $n, 'back ' . time) eq "own1.$n" }),
	'gw_8: when its own servers are back, they are asked again')
  or diag(ask("SELECT server, state, why, in_flight, cooldown_until - now(), next_probe - now() FROM infer.stat_servers WHERE server LIKE '%.$n'"),
	outcome('*', $n, 'still not back'));

# ----------------------------------------------------------------------------------------------
# What may have been executed goes to no fallback, unless the call permits that.

$n = models('complete');
given(own1 => ['fault_lost=100'], own2 => ['fault_lost=100']);
is( outcome('server, reason, execution, attempts', $n, 'once'),
	"own1.$n|disconnected|maybe_executed|1", 'gw_8: what may have run is asked of no fallback');
is(requests(), '1 0 0 0', '... indeed');
is(outcome('server, reason, attempts', $n, 'twice', '"retry": "ambiguous"'),
	"second.$n||3", '... but with retry ambiguous it is');
given(own1 => ['fault_400=100'], own2 => ['fault_400=100']);
is(outcome('server, reason, attempts', $n, 'wrong'),
	"own1.$n|bad_request|1", 'gw_8: nor what is wrong with the request itself');
$n = models('complete');
given(map { $_ => ['fault_429=100', 'retry_after=-1'] } qw(own1 own2));
is(outcome('server, reason, attempts', $n, 'overloaded'),
	"second.$n||3", 'gw_8: what all of them refuse for their load is asked of a fallback');
is(outcome('reason, attempts', $n, 'never', '"retry": "never"'),
	'overloaded|1', '... but not with retry never');

# ----------------------------------------------------------------------------------------------
# Rights, versions, other kinds of answers.

$n = models('complete');
my $e = models('embed');
given();
down('own1', 'own2');
ask('CREATE ROLE someone; GRANT USAGE ON SCHEMA infer TO someone;',
	map { qq{GRANT USAGE ON FOREIGN SERVER "$_.$n" TO someone;} } qw(own1 own2 third));
is( ask('SET ROLE someone;', "SELECT server FROM infer.try_complete('main$n', 'right', '{}', '{}')"),
	"third.$n", 'gw_8: a fallback on whose server one has no USAGE is not asked');
is(requests(), '- - 0 1', '... indeed');
ask("SELECT infer.alter_placement('main$n', 'own1.$n', version => '1.02');");
is(outcome('server, reason', $n, 'version', '"version": "1.02"'),
	"second.$n|", 'gw_8: a fallback stands in for a version of the model');
is(outcome('server, reason', $n, 'version', '"version": "7.00"'),
	'|no_dest', '... but not for one that it does not have');
is(ask("SELECT cardinality(infer.embed('main$e', 'vector'))"),
	6, 'gw_8: vectors are those of the model that answers');
is(ask(qq{SELECT count(DISTINCT cardinality(v)) FROM (SELECT infer.embed('main$e', 'v ' || i, '{}',
		'{"streaming_mode": "batch"}') AS v FROM generate_series(1, 100) i) x}),
	1, '... in batches, too');
ask("SELECT infer.drop_model('second$n');");
is(outcome('server', $n, 'dropped'), "third.$n", 'gw_8: a fallback that was dropped is passed over');

# ----------------------------------------------------------------------------------------------
# The first moments of an outage: who waits in line for a server that cannot be connected to any more
# goes on as soon as that is known, and does not dial it in its turn.

given();
$n = models('complete');
ask(qq{ALTER SERVER "own1.$n" OPTIONS (ADD max_concurrency '1'); SELECT infer.drop_placement('main$n', 'own2.$n');});
$mock{own1}->set('hold=1');
my $patient = q{SET pg_inference.failure_threshold = 0;};
my @waiting = map {
	InferProc->start($node, "waits $_",
		qq{$patient SELECT attempts, server FROM infer.try_complete('main$n', 'waits $_');\n})
} 1 .. 9;
ok(InferTest::wait_until(60, sub { ask("SELECT in_flight, waiting FROM infer.stat_admission WHERE key = 'own1.$n'") eq '1|8' }),
	'gw_8: eight wait in line for the only permit of a server');
down('own1');
my %went;
$went{ ($_->finish)[0] =~ s/\n//r }++ foreach @waiting;
my $lost = $went{"1|own1.$n"} // 0; # the next one may have reached it while it went
ok($lost >= 1 && $lost <= 3, 'gw_8: it dies, and with it the request that it had') or diag(explain(\%went));
is(($went{"1|second.$n"} // 0) + ($went{"2|second.$n"} // 0), 9 - $lost, 'gw_8: all others are answered by the fallback')
  or diag(explain(\%went));
cmp_ok($went{"2|second.$n"} // 0, '<=', 4, '... and most of them did not wait for their turn to dial');

# ----------------------------------------------------------------------------------------------
# The model's own servers answer, but with nothing but errors: once they are left alone, nobody waits
# for them.

$n = models('complete');
given(own1 => ['fault_500=100'], own2 => ['fault_500=100']);
my $prefer = in_order($n);
my $call = qq{infer.try_complete('main$n', 'broken ' || i, '{}', '{$prefer}')};
my $cool = "SET pg_inference.failure_cooldown = '1h'; SET pg_inference.failure_patience = '1h'; SET statement_timeout = '60s';";
foreach my $server (qw(own1 own2))
{
	is(ask($cool, qq{SELECT string_agg(DISTINCT o.reason || ' ' || o.execution || ' ' || o.server, ',')
			FROM generate_series(1, 6) i, $call o}),
		"server_error maybe_executed $server.$n", "gw_8: errors that may have been executed are the call's end: $server");
}
is(ask($cool, qq{SELECT string_agg(DISTINCT o.server, ','), count(o.value) FROM generate_series(7, 30) i, $call o}),
	"second.$n|24", 'gw_8: servers that are left alone are passed over') or diag(requests());

is(ask(q{SELECT coalesce(sum(in_flight + waiting), 0) FROM infer.stat_admission}),
	0, 'no permit is held, and nobody waits');
done_testing();
