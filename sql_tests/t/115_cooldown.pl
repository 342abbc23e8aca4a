# A server that keeps failing is left alone: fault_F50, fault_F52, fault_F59; and what is no reason
# to leave it alone.
use strict;
use warnings;
use InferTest;
use InferProc;
use InferPulse;
use IO::Socket::INET;
use List::Util qw(max min sum0);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time clock_gettime CLOCK_MONOTONIC);

my $pulse = InferPulse->new;
my $mock = InferTest::Mock->new;
my $other = InferTest::Mock->new;
my $node = InferTest::new_node(
	'cooldown', 'pg_inference.streaming_mode = per_row',
	'pg_inference.failure_patience = 1h'); # on a busy machine a short outage is not that short
InferTest::connect_mock($node, $mock);

sub given
{
	$mock->set('defaults', 'queue=100000', 'tokens=4', @_);
	$mock->reset;
	return;
}

sub ask { return $node->safe_psql('postgres', join("\n", @_)); }

# A server under a key of its own, at one of the two addresses.
sub server { return InferTest::create_server($node, @_); }

sub admission { return InferTest::admission($node, @_); }

# Answered rows; a failed one counts as none.
sub rows_of
{
	my ($server, $label, $n) = @_;
	return qq{SELECT 'rows', count(value), string_agg(DISTINCT reason, ' ')
		FROM generate_series(1, $n) i, infer.try_complete('$server/m', '$label ' || i);\n};
}

sub session { my ($name, $sql) = @_; return InferProc->start($node, $name, $sql); }

# What a first failure or three make of a key.
sub breaks
{
	my ($key, $reason) = @_;
	ask(rows_of($key, "breaks $key", 3));
	is(admission($key, 'failures_in_a_row, cooldown_until > now(), last_failure'),
		"3|t|server_error", "$reason: three failures, and the server is left alone");
	return;
}

my $clock = "SELECT 'clock', extract(epoch FROM clock_timestamp());\n";

# ----------------------------------------------------------------------------------------------
# fault_F50, fault_F52: two servers that always fail, six sessions each. What is under way when it
# shows is asked; from then on a request a period, from all of them together.

my %broken = (fault_F50 => [ 'cool_a', $mock ], fault_F52 => [ 'cool_b', $other ]);
my %running;
given('fault_500=100');
$other->set('queue=100000', 'fault_500=100');
foreach my $fault (sort keys %broken)
{
	my ($key, $at) = @{ $broken{$fault} };
	server($key, $at->url, max_concurrency => 4);
	$running{$fault} = [ map { session("$key $_", rows_of($key, "$key $_", 20)) } 1 .. 6 ];
}

# When each text was received, in ms, the first ones first. (None is asked twice.)
sub received
{
	my ($at) = @_;
	my $text = $at->{http}->request('GET', $at->url . '/stats/ledger')->{content};
	return sort { $a <=> $b } map { (split /\t/)[2] } split /\n/, $text;
}

# What the machine took between two such times.
my $zero = time - clock_gettime(CLOCK_MONOTONIC);
sub lost_ms { return 1000 * $pulse->lost(map { $zero + $_ / 1000 } @_); }

my %after;
foreach my $fault (sort keys %broken)
{
	my ($key, $at) = @{ $broken{$fault} };
	ok( InferTest::wait_until(60, sub { admission($key, 'failures_in_a_row >= 9 AND waiting = 6') eq 't' }),
		"$fault: all wait, after some probes") or diag(admission($key, '*'));
	is(admission($key, q{last_failure, failing_since < now(), current_limit}),
		'server_error|t|4', 'fault_F59: it shows since when and why; the limit is not moved');
}
foreach my $fault (sort keys %broken)
{
	my @at = received($broken{$fault}[1]);
	my @gaps = map { $at[$_] - $at[ $_ - 1 ] } 1 .. $#at;
	my @pauses = grep { $_ >= 749 } @gaps;
	my @short = grep { $gaps[ $_ - 1 ] < 749 && $gaps[ $_ - 1 ] - lost_ms(@at[ $_ - 1, $_ ]) >= 500 } 1 .. $#at;
	note("$fault: " . join(' ', map { sprintf '%.0f', $_ } @gaps));
	# four at a time; the ends of two of them let two more go before the third one ends
	cmp_ok(scalar(@at) - @pauses, '<=', 6, "$fault: at first, what was under way");
	cmp_ok(scalar(@pauses), '>=', 3, "$fault: then it is tried again");
	is(scalar(@short), 0, "$fault: but only once in a second");
	cmp_ok(max(@pauses), '>=', 1500, "$fault: and later on more rarely");
	$after{$fault} = scalar @at;
}
foreach my $fault (sort keys %broken)
{
	my ($key, $at) = @{ $broken{$fault} };
	$at->set('fault_500=0');
	my $healed = time;
	my @out = map { [ $_->finish ] } @{ $running{$fault} };
	my $failed = admission($key, 'failed');
	my $rows = sum0(map { $_->[0] =~ /^rows\|(\d+)/ ? $1 : -1000 } @out);
	is($rows + $failed, 120, "$fault: all are answered when the server is well, but those that had failed")
	  or diag(explain(\@out));
	cmp_ok($pulse->since($healed), '<', 9 + 5, "$fault: after the period at most");
	is(admission($key, q{failures_in_a_row || ' ' || in_flight || ' ' || waiting, failing_since, cooldown_until, last_failure}),
		'0 0 0|||server_error', 'fault_F59: and it shows');
}
cmp_ok(abs($after{fault_F50} - $after{fault_F52}), '<=', 5, 'fault_F52: the second server is treated like the first');

# ----------------------------------------------------------------------------------------------
# Who waits for a server that is left alone can be cancelled at once, whoever has the alarm.

server('cancelled', $mock->url);
given('fault_500=100');
ask('SET pg_inference.failure_cooldown = 60000;', rows_of('cancelled', 'cancelled', 3));
my @waiting = map {
	session("cancelled $_", "SET pg_inference.failure_cooldown = 60000;\n" . rows_of('cancelled', "waits $_", 1) . $clock)
} 1 .. 3;
ok(InferTest::wait_until(60, sub { admission('cancelled', 'waiting') == 3 }), 'cancel: three wait');
my $requests = $mock->stat('requests');
my ($began) = split /\|/, ask(q{WITH c AS MATERIALIZED (SELECT clock_timestamp() AS t)
	SELECT extract(epoch FROM t), count(pg_cancel_backend(pid)) FROM c, pg_stat_activity
	WHERE application_name LIKE 'cancelled %' GROUP BY t});
my @ends;
foreach my $session (@waiting)
{
	my ($out, $err) = $session->finish;
	like($err, qr/ERROR:  57014/, 'cancel: in the cooldown');
	my $end = $out =~ /^clock\|([\d.]+)$/m ? $1 : $began + 60;
	push @ends, 1000 * ($end - $began - $pulse->lost($began, $end));
}
note(sprintf 'cancel: %.0f, %.0f and %.0f ms', @ends);
cmp_ok(max(@ends), '<', 200, 'cancel: within 200 ms');
is(admission('cancelled', q{waiting || ' ' || in_flight}), '0 0', 'cancel: nobody waits');
is($mock->stat('requests'), $requests, 'cancel: nothing was sent');

# ----------------------------------------------------------------------------------------------
# The process with the probe is terminated: its permit comes back, and another one asks the server
# when the period is over.

server('killed', $mock->url);
given('fault_500=100');
breaks('killed', 'terminated probe');
$mock->set('fault_500=0', 'fault_hang=100');
my @probing = map { session("killed $_", rows_of('killed', "killed $_", 1)) } 1 .. 3;
ok(InferTest::wait_until(60, sub { $mock->stat('in_flight') == 1 && admission('killed', 'waiting') == 2 }),
	'terminated probe: one has it, two wait');
$mock->set('fault_hang=0');
my $prober = ask(q{SELECT pid FROM infer.stat_progress WHERE in_flight = 1});
like($prober, qr/^\d+$/, 'terminated probe: and it is known who');
is(ask("SELECT pg_terminate_backend($prober, 60000)"), 't', 'terminated probe: it is gone');
my $died = time;
my @left = map { [ $_->finish ] } @probing;
cmp_ok($pulse->since($died), '<', 8, 'terminated probe: the others do not wait for it');
is(scalar(grep { $_->[0] eq "rows|1|\n" } @left), 2, 'terminated probe: and are answered') or diag(explain(\@left));
is(admission('killed', q{waiting || ' ' || in_flight, failures_in_a_row}), '0 0|0', 'terminated probe: no permit is out');

# A permit for the probe that comes to nothing (here the statement may make no further call) is
# passed on at once, and not in a period.
server('good', $other->url);
server('unsent', $mock->url);
given('fault_500=100');
$other->set('defaults');
my $slow = 'SET pg_inference.failure_cooldown = 3000;';
ask($slow, rows_of('unsent', 'unsent', 3));
ok(InferTest::wait_until(60, sub { admission('unsent', 'cooldown_until IS NULL') eq 't' }), 'unsent probe: it is due');
$mock->set('fault_500=0');
is( ask($slow, q{SET pg_inference.statement_call_budget = 1;
	SELECT reason FROM infer.try_complete((SELECT CASE WHEN infer.complete('good/m', 'a') <> '' THEN 'unsent/m' END), 'b')}),
	'budget', 'unsent probe: the permit is not used');
my $free = time;
is(ask($slow, rows_of('unsent', 'sent', 1)), 'rows|1|', 'unsent probe: another one asks');
cmp_ok($pulse->since($free), '<', 1.5, 'unsent probe: at once');

# ----------------------------------------------------------------------------------------------
# A server that is not there: calls wait for as long as their timeout, and then no more; later ones
# fail at once, however many.

my $gone = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1', Proto => 'tcp');
my $nowhere = 'http://127.0.0.1:' . $gone->sockport;
close $gone;
server('dead', $nowhere);
my $start = time;
my ($out, $err) = session('dead', q{SET pg_inference.request_timeout = '2500ms';
	SELECT 'rows', count(value), string_agg(DISTINCT reason, ' ' ORDER BY reason),
	string_agg(DISTINCT execution, ' '), max(attempts)
	FROM generate_series(1, 100) i, infer.try_complete('dead/m', 'dead ' || i);})->finish;
my $took = $pulse->since($start);
note(sprintf 'dead server: %.2f s', $took);
like($out, qr/^rows\|0\|(connect_failed )?server_failed\|not_admitted\|\d\n/, 'dead server: all rows fail, nothing was executed')
  or diag($err);
cmp_ok(time - $start, '>=', 2.4, 'dead server: it is waited for');
cmp_ok($took, '<', 6, 'dead server: but not for long');
my $failed = admission('dead', 'granted');
cmp_ok($failed, '<=', 16 + 2 + 4, 'dead server: besides what was under way, a request a period');
is(admission('dead', 'last_failure'), 'connect_failed', 'fault_F59: why');

ok(InferTest::wait_until(60, sub { admission('dead', 'cooldown_until IS NOT NULL') eq 't' }), 'dead server: it is left alone')
  or diag(admission('dead', '*'));
ask(q{SET pg_inference.request_timeout = '2500ms';}, rows_of('dead', 'once more', 1)); # a probe that was due
$start = time;
my @many = InferProc::run_all($node, 'many ',
	map { "SET pg_inference.request_timeout = '2500ms';\n" . rows_of('dead', "many $_", 300) } 1 .. 4);
$took = $pulse->since($start);
# but for a probe that may be due
like($_->[0], qr/^rows\|0\|(connect_failed )?server_failed\n$/, 'dead server: later calls fail at once') or diag($_->[1]) foreach @many;
note(sprintf 'dead server: 1200 calls in %.2f s', $took);
cmp_ok($took, '<', 2.5, 'dead server: without waiting');
cmp_ok(admission('dead', 'granted') - $failed, '<=', 4, 'dead server: and without being sent');

# the first of them may be the probe
(undef, undef, $err) = $node->psql('postgres', q{\set VERBOSITY verbose
	SET pg_inference.request_timeout = '2500ms'; SELECT (infer.try_complete('dead/m', 'perhaps the probe')).reason;
	SELECT infer.complete('dead/m', 'in words')});
like($err, qr/ERROR:  RNSVF: call of model "dead\/m" on server "dead" failed: the server has been failing, and is left alone/,
	'server_failed: code and message');
like($err, qr/DETAIL:  it has failed since \d{4}-\d\d-\d\d .*, with connect_failed the last time, and is tried again in \d\.\d s\. Nothing was sent\./,
	'server_failed: since when, why, and when it is tried again');
like($err, qr/HINT:  Check the inference server\./, 'server_failed: a hint');

# Somebody may sit before it: without a word about it a call waits for a few seconds only, whatever its
# timeout, and a delivery that asks for more waits on.
($out, $err) = session('impatient', q{SET pg_inference.failure_patience = 0;
	SELECT string_agg(DISTINCT reason, ' '), max(attempts) <= 1
	FROM generate_series(1, 2) i, infer.try_complete('dead/m', 'impatient ' || i);})->finish;
is($out, "server_failed|t\n", 'patience: none, so no second probe is waited for') or diag($err);
my $patient = InferProc->start($node, 'patient', q{SET pg_inference.failure_patience = 0; SET pg_inference.retry_budget = 100;
	SELECT infer.complete('dead/m', 'patient', options => '{"delivery": "reliable", "max_attempts": 1000}');});
ok(InferTest::wait_until(60, sub { admission('dead', 'waiting') eq '1' }), 'patience: a reliable call waits on');
ask('SELECT pg_cancel_backend(' . $patient->backend . ')');
(undef, $err) = $patient->finish;
like($err, qr/canceling statement due to user request/, 'patience: until it is cancelled');

# ----------------------------------------------------------------------------------------------
# What is no reason to leave a server alone.

sub has_failed
{
	my ($key, $name, $want, @texts) = @_;
	my $tried;
	my $rows = join(', ', map { "('$key $_ " . ($texts[$_] ? "[[mock:$texts[$_]]]" : '') . "')" } 0 .. $#texts);
	my $timeouts;
	foreach my $try (1 .. 5) # on a busy machine others may time out as well
	{
		server("$key try $try", $mock->url, max_concurrency => 1);
		$timeouts = ask(qq{SET pg_inference.max_attempts = 1; SET pg_inference.request_timeout = '300ms';
			SET pg_inference.limiter_start = 1; SET pg_inference.congestion_max_window = 1;
			SELECT count(*) FILTER (WHERE reason = 'timeout') FROM (VALUES $rows) v(t), infer.try_complete('$key try $try/m', t)});
		$tried = "$key try $try";
		last if $timeouts == grep { $_ eq 'hang' } @texts;
	}
	is(admission($tried, q{failures_in_a_row || CASE WHEN cooldown_until > now() THEN ' cools' ELSE '' END}), $want, $name);
	return;
}

given('base_ms=1', 'retry_after=0');
has_failed('kind_1', 'kinds: 400, 401, 403 and 404 are answers', '0', qw(400 401 403 404 400));
has_failed('kind_2', 'kinds: 429 and 503 are the limiter\'s', '0', qw(429 503 429 503));
has_failed('kind_3', 'kinds: so are timeouts, which tell nothing', '0', qw(hang hang hang hang));
has_failed('kind_4', 'kinds: an answer ends a run', '2', '500', '500', '', '500', '500');
has_failed('kind_5', 'kinds: a refusal, too', '2', qw(500 500 404 500 500));
has_failed('kind_6', 'kinds: a timeout does not', '3 cools', qw(500 500 hang 500));
has_failed('kind_7', 'kinds: 500, a connection reset, an answer cut short are one run', '3 cools', qw(500 reset partial));
has_failed('kind_8', 'kinds: 502 and 504', '3 cools', 'donestatus 502', 'donestatus 504', 'donestatus 502');

# ----------------------------------------------------------------------------------------------
# Off, it is still shown; and a statement with the setting off ends a pause.

given('fault_500=100');
server('off', $mock->url);
ask('SET pg_inference.failure_threshold = 0;', rows_of('off', 'off', 8));
is(admission('off', 'failures_in_a_row, failing_since < now(), cooldown_until'), '8|t|', 'off: never left alone, but watched');
is($mock->stat('requests'), 8, 'off: all were sent');
ask(rows_of('off', 'on', 1));
is(admission('off', 'cooldown_until > now()'), 't', 'on: the next failure counts with those before');
$mock->set('fault_500=0');
$start = time;
is(ask('SET pg_inference.failure_threshold = 0;', rows_of('off', 'off again', 1)), 'rows|1|', 'off: ends it');
cmp_ok($pulse->since($start), '<', 0.7, 'off: at once');

$node->stop;
done_testing();
