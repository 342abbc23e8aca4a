# Every claim is true: a randomised run over all faults at once, judged by the server's own ledger.
# fail_P19, fail_P21, fail_P46, fail_P69, fail_P71, fail_P76.
#
# PG_INFERENCE_LONG=1 makes ten times as many calls, PG_INFERENCE_SEED=N makes others.
use strict;
use warnings;
use InferLedger;
use InferProc;
use InferTest;
use List::Util qw(sum);
use Test::More;
use Time::HiRes qw(time);

my $seed = $ENV{PG_INFERENCE_SEED} // 20261130;
my $long = $ENV{PG_INFERENCE_LONG} ? 10 : 1;
my $sessions = 4;
note("seed $seed");

my %faults = %InferLedger::faults;
my $mock = InferTest::Mock->new("seed=$seed", @InferLedger::settings);
my $direct = InferTest::Mock->new("seed=$seed", @InferLedger::settings, @InferLedger::trusted);
my @mocks = ($mock, $direct);
my $node = InferTest::new_node(
	'ledger', 'max_connections = 20',
	'pg_inference.limiter_adaptive = off', # proofs are the subject, not how fast a server is asked,
	'pg_inference.failure_threshold = 0', # nor how long it is left alone
	'pg_inference.congestion_min_window = 16',
	'pg_inference.request_timeout = 300ms');
InferTest::connect_mock($node, $mock, max_concurrency => 16, max_batch_size => 8);
my $direct_url = $direct->url;
$node->safe_psql('postgres', qq{CREATE SERVER direct FOREIGN DATA WRAPPER pg_inference
	OPTIONS (url '$direct_url/v1', trust 'direct', max_concurrency '16', max_batch_size '8')});
InferLedger::create_claims($node);

sub faulty { my @set = map { "fault_$_=$faults{$_}" } sort keys %faults; $_->set(@set) foreach @mocks; return; }
sub sound { my @set = map { "fault_$_=0" } keys %faults; $_->set(@set) foreach @mocks; return; }

# A figure of both servers, added up.
sub total { my ($figure) = @_; return sum(map { $_->stat($figure) } @mocks); }

# Waits until the server has done whatever somebody has left behind.
sub settled
{
	my ($name) = @_;
	ok(InferTest::wait_until(60, sub { total('in_flight') == 0 }), "$name: the servers are done");
	return;
}

# Cancels one of the sessions now and then, until all have ended; not too often, on whatever machine.
sub canceller
{
	my $most = 40 * $long;
	return InferProc->start($node, 'canceller', q{
	DO $$
	BEGIN
		FOR i IN 1..} . $most . q{ LOOP
			PERFORM pg_sleep(0.3);
			PERFORM pg_stat_clear_snapshot();
			PERFORM pg_cancel_backend(pid) FROM (SELECT pid FROM pg_stat_activity
				WHERE application_name LIKE 'ledger%' AND state = 'active' ORDER BY random() LIMIT 1) s;
			EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name LIKE 'ledger%');
		END LOOP;
	END $$;});
}

# How many rows each of the extension's views has; what those that all may see say, in one text.
sub series
{
	my @views = split /\n/, $node->safe_psql('postgres',
		q{SELECT viewname FROM pg_views WHERE schemaname = 'infer' AND viewname LIKE 'stat\_%' ORDER BY 1});
	my $rows = join(', ', map { "$_: " . $node->safe_psql('postgres', "SELECT count(*) FROM infer.$_") } @views);
	my $text = join("\n", map { $node->safe_psql('postgres', "SELECT v FROM infer.$_ v") } @views);
	return ($rows, $text);
}

$node->safe_psql('postgres', join('', map { "SELECT infer.embed('$_->[0]', 'first'), infer.complete('$_->[1]', 'first');" } [ 'm', 'c' ], [ ('direct/mock') x 2 ]));
my ($series) = series();
my @statements = InferLedger::plan($seed, 270 * $long);
my @scripts = map { my $n = $_; join('', map { InferLedger::script($_) } grep { $_->{number} % $sessions == $n } @statements) } 0 .. $sessions - 1;
faulty();
my $begin = time;
my @running = map { InferProc->start($node, "ledger$_", $scripts[$_]) } 0 .. $#scripts;
$_->backend foreach @running;
my $canceller = canceller();
my @results = map { [ $_->finish(3600) ] } @running;
my (undef, $complaint) = $canceller->finish;
note(sprintf 'ran for %.1f s', time - $begin);
settled('campaign');

my $found = InferLedger::judge(\@statements, InferLedger::claims($node), { map { %{ $_->ledger } } @mocks });
my %struck = %{ $mock->faults };
note("$found->{calls} calls, $found->{stored} of them with a claim, $found->{missing} attempts that were never read");

is($complaint, '', 'the canceller works');
cmp_ok($found->{calls}, '>=', 10_000 * $long, 'ten thousand calls');
cmp_ok($found->{stored}, '>=', $found->{calls} / 2, 'most of them with a claim');
is(scalar @{ $found->{violations} }, 0, 'fail_P19, fail_P21: what was claimed is what the ledger says')
  or diag(join("\n", @{ $found->{violations} }[ 0 .. ($#{ $found->{violations} } < 20 ? $#{ $found->{violations} } : 20) ]));
cmp_ok($found->{missing}, '<=', total('stalled_connections'), 'fail_P19: an attempt is a request that the server has read, or its connection had stalled');

# Nothing but what this run provokes: cancelled, timed out, not to be aligned.
# (25P02: what follows a statement that was broken off in its transaction.)
my @errors = map { /^psql:\S+ ((?:ERROR|FATAL|PANIC|WARNING):  .*)/mg } map { $_->[1] } @results;
is(join("\n", grep { !/^ERROR:  (57014|RXALN|25P02):/ } @errors), '', 'no other error');
my %states;
/^ERROR:  (\w+: (?:canceling statement due to \w+)?)/ && $states{$1}++ foreach @errors;
note(join(', ', map { "$_ $states{$_}" } sort keys %states));

is($node->safe_psql('postgres', q{SELECT coalesce(sum(in_flight), 0), coalesce(sum(waiting), 0) FROM infer.stat_admission}),
	'0|0', 'fail_P46: no permit is out, nobody waits');

# fail_P69: ten thousand errors of all kinds later, the views have the rows that they had, and none of
# what was asked or answered.
my ($later, $shown) = series();
is($later, $series, 'fail_P69: the views have no more rows than before') or diag($shown);
like($series, qr/stat_admission: [1-9].*stat_models: [1-9]/, 'fail_P69: which they had');
unlike($shown, qr/[cm] \d+-\d+|injected|failed after the work/, 'fail_P69: and nothing of texts and errors');

# fail_P76: a run in which something never happened has not tested it.
is($struck{$_} > 0, 1, "fail_P76: fault $_ has struck") foreach sort keys %faults;
my @sometimes = (
	'claim: not_admitted', 'claim: maybe_executed', 'claim: executed',
	'a value after a refusal', 'a value after a loss', 'refused again and again',
	'a refusal after a loss keeps the doubt', 'a second sending on a kept connection is vetoed',
	'executed, and lost', 'maybe executed, and was not', 'executed after its deadline',
	'executed twice', 'executed for nobody', 'a statement was broken off', 'a batch was split',
	'a server is trusted that nothing ran', 'poison is alone', 'end: stored', 'end: timeout', 'end: cursor', 'end: rollback',
	map { "reason: $_" } qw(timeout disconnected overloaded unauthenticated permission_denied not_found
	  bad_request request_too_large server_error redirected malformed_reply incomplete_reply missing_result));
cmp_ok($found->{seen}{$_} // 0, '>', 0, "fail_P76: it happened: $_") foreach @sometimes;
cmp_ok($states{"57014: canceling statement due to $_"} // 0, '>', 0, "fail_P76: it happened: statements ended by $_")
  foreach qw(user statement);
cmp_ok($states{'RXALN: '} // 0, '>', 0, 'fail_P76: it happened: answers that cannot be aligned');
is($found->{seen}{'reason: internal'}, undef, 'no failure is our own');

# Values that came through are those of a server without faults. (Of a vector that is short, and alone
# in its request, nobody can tell.)
sound();
is( $node->safe_psql('postgres', q{
		SELECT count(*) FILTER (WHERE value IS DISTINCT FROM infer.embed('m', 'm ' || statement || '-' || line)::text), count(*) > 1000
		FROM claims WHERE value NOT LIKE 'c %' AND value ~ '^.[^,]*,[^,]*,[^,]*,[^,]*.$'}),
	'0|t', 'fail_P71: every vector is that of its own text');

$node->stop;
done_testing();
