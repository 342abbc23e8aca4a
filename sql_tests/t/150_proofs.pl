# What each way to fail proves, compared with what the server has done: fail_P1 to P4, P7 to P9, P11,
# P12, P13, P15, P16, P18, P28, P45, P61, P63. (P5 and the others: ../../docs/proofs.md.)
use strict;
use warnings;
use InferProc;
use InferPulse;
use InferTest;
use Test::More;
use Time::HiRes qw(sleep time);

my $mock = InferTest::Mock->new('dim=4');
my $node = InferTest::new_node('proofs', 'pg_inference.failure_threshold = 0');
InferTest::connect_mock($node, $mock, max_concurrency => 8);
my ($port) = $mock->url =~ /:(\d+)$/;

sub given { $mock->set('defaults', 'dim=4', @_); $mock->reset; return; }
sub ask { return $node->safe_psql('postgres', join("\n", @_)); }

# Sets a parameter for all sessions to come; waits until new ones have it.
sub configure
{
	my ($name, $value) = @_;
	ask("ALTER SYSTEM SET $name = '$value';", 'SELECT pg_reload_conf();');
	InferTest::wait_until(30, sub { ask("SHOW $name") eq $value }) or die "$name is not $value";
	return;
}

# reason, execution, attempts, HTTP status of one call, with and without InferScan.
my $n = 0;
sub outcomes
{
	my ($call, $options) = @_;
	my @outcomes;
	foreach my $enable (qw(on off))
	{
		$n++;
		push @outcomes, ask("SET pg_inference.enable = $enable;", qq{
			SELECT concat_ws(' ', coalesce((o).reason, 'ok'), (o).execution, (o).attempts, (o).http_status)
			FROM (SELECT infer.try_$call, options => '{$options}') AS o FROM generate_series($n, $n) i OFFSET 0) s});
	}
	return @outcomes;
}

# ... must all be as wanted; with how often the server has read and executed the texts.
sub proves
{
	my ($name, $call, $options, $wanted, $received, $executed) = @_;
	$mock->reset;
	my @outcomes = outcomes($call, $options);
	is(join(', ', @outcomes), "$wanted, $wanted", "$name: $wanted");
	ok(InferTest::wait_until(10, sub { $mock->stat('in_flight') == 0 }), "$name: the server is done");
	is($mock->stat('requests'), 2 * $received, "$name: requests that the server has read");
	is($mock->stat('items'), 2 * $executed, "$name: executions");
	return;
}

my $complete = q{complete('c', 'text ' || i};
my $once = '"max_attempts": 1, "timeout": 400';

# ----------------------------------------------------------------------------------------------
# fail_P1: before there is a connection, each phase has its own reason, and none reaches a server.
# (A certificate that cannot be verified: 160_tls.pl.)

my ($fillers, $full_port) = InferProc::full_listener();
my $closed = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1', Proto => 'tcp');
my $closed_port = $closed->sockport;
close $closed;
my %url = (
	nowhere => 'http://nowhere.invalid/v1', refused => "http://127.0.0.1:$closed_port/v1",
	silent => "http://127.0.0.1:$full_port/v1", tls => "https://127.0.0.1:$port/v1");
ask("CREATE SERVER $_ FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$url{$_}')") foreach sort keys %url;
configure('pg_inference.connect_timeout', '300ms');
given();
foreach my $case ([ nowhere => 'lookup_failed' ], [ refused => 'connect_failed' ], [ silent => 'connect_failed' ], [ tls => 'tls_failed' ])
{
	my ($server, $reason) = @$case;
	proves("fail_P1: $server", "complete('$server/m', 'text ' || i", '"max_attempts": 1', "$reason not_admitted 1", 0, 0);
}
proves('fail_P18: two attempts that nobody saw', q{complete('refused/m', 'text ' || i}, '"max_attempts": 2', 'connect_failed not_admitted 2', 0, 0);
close $_ foreach @$fillers;

# ----------------------------------------------------------------------------------------------
# fail_P2: what waits for a permit has not been sent, and never is.

ask(q{ALTER SERVER mock OPTIONS (ADD admission_key 'p2', SET max_concurrency '1')});
given('fault_hang=100');
my $holder = InferProc->start($node, 'holder', q{SELECT infer.complete('c', 'holder');});
ok(InferTest::wait_until(60, sub { $mock->stat('items') == 1 }), 'fail_P2: the permit is taken');
foreach my $enable (qw(on off))
{
	my (undef, undef, $said) = $node->psql('postgres', qq{\\set VERBOSITY verbose
		SET pg_inference.enable = $enable; SET statement_timeout = '300ms';
		SELECT infer.try_complete('c', 'waits $enable ' || i) FROM generate_series(1, 3) i});
	like($said, qr/ERROR:  57014/, "fail_P2: enable $enable: gives up while it waits");
}
ask(q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'holder'});
$holder->finish;
given();
is(ask(q{SELECT count(infer.complete('c', 'after ' || i)) FROM generate_series(1, 5) i}), 5, 'fail_P2: calls go on');
is(join(',', grep { /waits/ } keys %{ $mock->ledger }), '', 'fail_P2: what gave up is not sent later');
ask(q{ALTER SERVER mock OPTIONS (SET admission_key 'proofs', SET max_concurrency '8')});

# ----------------------------------------------------------------------------------------------
# After it has left: what the server did, and what can be known of it.

given('fault_lost=100');
proves('fail_P4: executed, then closed without a byte, on a fresh connection', $complete, $once, 'disconnected maybe_executed 1', 1, 1);
given('fault_drop=100');
proves('fail_P4: read and reset, never executed', $complete, $once, 'disconnected maybe_executed 1', 1, 0);
given('fault_stall=100');
proves('fail_P7: a small request that the system took and nobody read', $complete, $once, 'timeout maybe_executed 1', 0, 0);
is(ask(q{SELECT sum(in_flight), sum(waiting) FROM infer.stat_admission}), '0|0', 'fail_P45: a peer that is half open holds no permit past the deadline');
my $pulse = InferPulse->new;
my $began = time;
is(ask(q{SET pg_inference.request_timeout = '400ms'; SET pg_inference.max_attempts = 1;
	SELECT count(value), count(*), count(*) FILTER (WHERE reason = 'timeout') FROM generate_series(1, 24) i, infer.try_complete('c', 'half open ' || i)}),
	'0|24|24', 'fail_P45: nor do those behind it wait for longer');
cmp_ok($pulse->since($began), '<', 24 * 0.4 + 5, 'fail_P45: each takes its time at most');
proves('fail_P8: a large request stopped half-way', q{complete('c', repeat('x', 40000000) || i}, '"max_attempts": 1, "timeout": 2000',
	'timeout not_admitted 1', 0, 0);
given('fault_hang=100');
proves('fail_P7: executed, and no answer in time', $complete, $once, 'timeout maybe_executed 1', 1, 1);
given('fault_late=100', 'late_ms=800');
proves('fail_P7: executed after the deadline', $complete, $once, 'timeout maybe_executed 1', 1, 1);
given('fault_garbage=100');
proves('fail_P16: an answer that is no HTTP', $complete, $once, 'malformed_reply maybe_executed 1', 1, 1);
given('fault_empty=100');
proves('fail_P16: a good status and no answer', $complete, $once, 'incomplete_reply maybe_executed 1 200', 1, 1);

# fail_P11: who says 500, 502 or 504 may have executed it, or not.
foreach my $status (500, 502, 504, 520, 524)
{
	given('fault_donestatus=100', "failures=$status");
	proves("fail_P11: $status after the work", $complete, $once, "server_error maybe_executed 1 $status", 1, 1);
	given('fault_status=100', "refusals=$status");
	proves("fail_P11: $status instead of the work", $complete, $once, "server_error maybe_executed 1 $status", 1, 0);
}

# fail_P28: an answer that comes after its deadline is nobody's, and the connection that it comes on is
# not used again: each later answer is that of its own text.
given('reply=echo', 'late_ms=900');
ask(q{ALTER SERVER mock OPTIONS (SET admission_key 'p28', SET max_concurrency '1')});
foreach my $enable (qw(on off))
{
	my $said;
	foreach my $try (1 .. 5) # on a busy machine others are late as well
	{
		$mock->reset;
		$said = ask("SET pg_inference.enable = $enable; SET pg_inference.request_timeout = '500ms';", q{
			SELECT count(*) FILTER (WHERE (o).value = text), count(*) FILTER (WHERE (o).value <> text), count(*) FILTER (WHERE (o).reason = 'timeout')
			FROM (SELECT text, infer.try_complete('c', text) AS o
				FROM (SELECT 'p28 ' || i || CASE WHEN i % 5 = 0 THEN ' [[mock:late]]' ELSE '' END AS text FROM generate_series(1, 20) i) t OFFSET 0) s});
		last unless $said =~ /^\d+\|0\|([5-9]|1\d)$/;
	}
	is($said, '16|0|4', "fail_P28: enable $enable: four late, the others have their own answers");
	ok(InferTest::wait_until(10, sub { $mock->stat('in_flight') == 0 }), 'fail_P28: the late ones are done');
	my $ledger = $mock->ledger;
	is(scalar(grep { $_->{executed} == 1 } values %$ledger), 20, 'fail_P28: all were executed once');
	is(scalar(grep { $_->{open} && $_->{requests} > $_->{ok} } @{ $mock->connections }), 0, 'fail_P28: no late one has a connection');
}
ask(q{ALTER SERVER mock OPTIONS (SET admission_key 'proofs', SET max_concurrency '8')});

# fail_P12: an answer that was cut proves the execution, so that no policy repeats it.
foreach my $how (qw(partial cutchunk))
{
	given("fault_$how=100");
	proves("fail_P12: $how", $complete, '"retry": "ambiguous", "max_attempts": 4', 'incomplete_reply executed 1 200', 1, 1);
}
given('fault_halfhang=100');
proves('fail_P12: half an answer, then silence', $complete, '"retry": "ambiguous", "max_attempts": 4, "timeout": 400',
	'timeout executed 1 200', 1, 1);

# fail_P13: cut where the end of the connection is the end of the answer, so that the transfer has nothing to say.
given('fault_cutclose=100');
proves('fail_P13: cut, and nobody says so', $complete, '"retry": "ambiguous", "max_attempts": 4', 'malformed_reply executed 1 200', 1, 1);

# fail_P15: an answer over the cap.
configure('pg_inference.max_response_size', '1MB');
given('fault_big=100', 'big_kb=8192');
proves('fail_P15: too large', $complete, '"retry": "ambiguous", "max_attempts": 4', 'reply_too_large executed 1 200', 1, 1);
cmp_ok($mock->stat('bytes_out'), '<', 16 * 1024 * 1024, 'fail_P15: the rest is not read');
given();
proves('fail_P15: calls go on', $complete, $once, 'ok executed 1 200', 1, 1);
configure('pg_inference.max_response_size', '64MB');

# fail_P9: a refusal proves that nothing ran; its pause is obeyed, and told.
given('fault_429=100', 'retry_after=1');
proves('fail_P9: refused', $complete, '"retry": "never"', 'overloaded not_admitted 1 429', 1, 0);
my $begin = time;
proves('fail_P9: refused again and again', $complete, '"max_attempts": 2', 'overloaded not_admitted 2 429', 2, 0);
cmp_ok(time - $begin, '>=', 2, 'fail_P9: each of them after the pause that the server asked for');
given('fault_429=100', 'retry_after=77');
my (undef, undef, $said) = $node->psql('postgres', q{SELECT infer.complete('c', 'x', options => '{"timeout": 400}')});
like($said, qr/HTTP status 429/, 'fail_P9: the status is told');
like($said, qr/77/, 'fail_P9: and the pause');

# ----------------------------------------------------------------------------------------------
# fail_P61: more than the server takes at a time wait with us: none is refused, none is lost.

ask(q{ALTER SERVER mock OPTIONS (SET admission_key 'p61', SET max_concurrency '64')});
given('base_ms=5', 'slots=64', 'queue=0');
my @results = InferProc::run_all($node, 'burst', map { qq{
	SET pg_inference.streaming_mode = per_row;
	SELECT 'rows', count(infer.embed('m', 'burst $_ ' || i)) FROM generate_series(1, 1024) i;} } 1 .. 8);
is(scalar(grep { $_->[0] =~ /^rows\|1024$/m && $_->[1] eq '' } @results), 8, 'fail_P61: every call is answered')
  or diag(map { $_->[1] } @results);
my $stats = $mock->stats;
is($stats->{rejected}, 0, 'fail_P61: none is refused');
is($stats->{duplicate_items}, 0, 'fail_P61: none is sent twice');
is($stats->{items}, 8192, 'fail_P61: all are executed');
cmp_ok($stats->{max_in_flight}, '<=', 64, 'fail_P61: the limit holds');
is(ask(q{SELECT sum(in_flight), sum(waiting) FROM infer.stat_admission}), '0|0', 'fail_P61: and nothing is left');

# fail_P63: an error, a cancel and the end of a session, while many others wait in line.
ask(q{ALTER SERVER mock OPTIONS (SET admission_key 'p63', SET max_concurrency '2')});
given('base_ms=3', 'jitter=1');
my @mixed = map { InferProc->start($node, "line$_", qq{
	SET pg_inference.streaming_mode = per_row;
	} . join('', map { my $k = $_; ("SELECT infer.embed('m', 'p63 $k ' || i || CASE WHEN i = 9 THEN '[[mock:400]]' ELSE '' END) FROM generate_series(1, 30) i;\n",
	"SET statement_timeout = 40; SELECT count(infer.embed('m', 'q63 $k ' || i)) FROM generate_series(1, 30) i; RESET statement_timeout;\n") } 1 .. 4)
	. "SELECT 'end';\n") } 1 .. 12;
$_->backend foreach @mixed;
ask(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name IN ('line1', 'line2', 'line3')});
my @ends = map { [ $_->finish(120) ] } @mixed;
is(scalar(grep { $_->[0] =~ /^end$/m } @ends), 9, 'fail_P63: nobody waits for himself');
is(ask(q{SELECT sum(in_flight), sum(waiting) FROM infer.stat_admission}), '0|0', 'fail_P63: nothing is left');

$node->stop;
done_testing();
