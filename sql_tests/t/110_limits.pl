# Waiting for a server's limit, its minute, its pause or its answers keeps nobody from what does not
# depend on it: fault_F9, F13, F24, F49, F50, F52, F93, F94. (fault_F60 and F65: 100_limiter.pl; F50 and F52
# of servers that fail: 115_cooldown.pl.)
# PG_INFERENCE_LONG=1: the refusals of fault_F24 last for a minute, and bounds are tight that
# otherwise leave room for a busy machine.
use strict;
use warnings;
use InferPulse;
use InferTest;
use InferProc;
use List::Util qw(min);
use POSIX qw(ceil);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $pulse = InferPulse->new;
my $mock = InferTest::Mock->new;
my $other = InferTest::Mock->new;
my $node = InferTest::new_node(
	'limits',
	'pg_inference.streaming_mode = per_row',
	'max_files_per_process = 4000', # a third of them may be connections of calls
	'pg_inference.max_attempts = 100');
InferTest::connect_mock($node, $mock);

sub given
{
	foreach my $server ($mock, $other)
	{
		$server->set('defaults', 'queue=100000', 'tokens=4', @_);
		$server->reset;
	}
	return;
}

sub ask { return $node->safe_psql('postgres', join("\n", @_)); }

# A server under a key of its own, at one of the two addresses.
sub server { my ($key, $at, @options) = @_; return InferTest::create_server($node, $key, $at->url, @options); }

sub admission { return InferTest::admission($node, @_); }

sub rows_of { return InferTest::rows_of(@_); }

sub cancel
{
	my ($pattern) = @_;
	ask("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '$pattern'");
	return;
}

my $clock = "SELECT 'clock', extract(epoch FROM clock_timestamp());\n";

# ----------------------------------------------------------------------------------------------
# fault_F9: three statements wait for a pause to end. The first, which has set the alarm for it, is
# cancelled at once; the others go on when the pause is over.

server('pause', $mock, rpm => 1000);
given('retry_after=8', 'fault_429=100');
my $start = time;
is(ask(q{SET pg_inference.max_attempts = 1; SELECT reason FROM infer.try_complete('pause/m', 'refused')}),
	'overloaded', 'fault_F9: the server wants a pause');
$mock->set('fault_429=0');
# who looks once a second would not look when the pause is over
sleep 0.3;
my @queue;
foreach my $n (1 .. 3)
{
	push @queue, InferProc->start($node, "queue $n",
		rows_of('pause', "queue $n", 1) . ($n == 1 ? 'SELECT pg_sleep(60);' : $clock));
	ok(InferTest::wait_until(6, sub { admission('pause', 'waiting') == $n }), "fault_F9: statement $n waits");
}
my $cancelled = time;
cancel('queue 1');
# its session stays, or it would leave the line by its end
ok( InferTest::wait_until(
		2, sub { ask(q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'queue 1' AND wait_event = 'PgSleep'}) }),
	'fault_F9: the first is cancelled');
my $took = $pulse->since($cancelled);
is(admission('pause', 'waiting'), 2, 'fault_F9: while the others wait');
cmp_ok($took, '<', 2, 'fault_F9: at once');
cancel('queue 1');
my ($out, $err) = $queue[0]->finish;
is(() = $err =~ /ERROR:  57014/g, 2, 'fault_F9: by the cancel');
is($mock->stat('requests'), 1, 'fault_F9: and nothing was sent');
my @late;
foreach my $session (@queue[ 1, 2 ])
{
	($out, $err) = $session->finish;
	like($out, qr/^rows\|1$/m, 'fault_F9: another goes on when the pause is over') or diag($err);
	push @late, $out =~ /^clock\|([\d.]+)$/m ? $1 - $start - 8 - $pulse->lost($start + 8, $1) : 60;
}
note(sprintf 'fault_F9: %.2f and %.2f s after it', @late);
cmp_ok(min(@late), '<', 0.4, 'fault_F9: its end has woken them');
is(admission('pause', 'in_flight || waiting::text'), '00', 'fault_F9: no permit is out, nobody waits');

# ----------------------------------------------------------------------------------------------
# fault_F13: many small requests: none fails, at a thousand in a second; the process works for less
# than half a millisecond for each, which does not depend on who else uses the machine.

sub cpu_ms
{
	my ($pid) = @_;
	my ($ns) = slurp_file("/proc/$pid/schedstat") =~ /^(\d+)/;
	return $ns / 1e6;
}

server('small', $mock, max_concurrency => 128);
given('base_ms=50');
my $session = InferProc->start($node, 'small', q{SET pg_inference.request_timeout = '2s';
	SET pg_inference.max_attempts = 1;
	SELECT 'cpu', split_part(pg_read_file('/proc/self/schedstat'), ' ', 1);}
	  . rows_of('small', 'small', 5000)
	  . q{SELECT 'cpu', split_part(pg_read_file('/proc/self/schedstat'), ' ', 1);});
($out, $err) = $session->finish;
like($out, qr/^rows\|5000$/m, 'fault_F13: no request fails') or diag($err);
is($mock->stat('requests'), 5000, 'fault_F13: each is sent once');
my ($before, $after) = $out =~ /^cpu\|(\d+)$/mg;
my $each = ($after - $before) / 1e6 / 5000;
my $rate = 5000 / ($mock->stat('span_ms') / 1000);
note(sprintf 'fault_F13: %.0f requests a second, %.3f ms of CPU each', $rate, $each);
cmp_ok($each, '<', 0.5, 'fault_F13: CPU for two thousand requests a second');
cmp_ok($rate, '>', $ENV{PG_INFERENCE_LONG} ? 1000 : 300, 'fault_F13: they are as fast as that');

# ----------------------------------------------------------------------------------------------
# fault_F24: a server that refuses everything, in this session and another one, is nothing to a
# statement that asks another server.

sub throughput
{
	my ($name) = @_;
	$other->reset;
	my $n = $ENV{PG_INFERENCE_LONG} ? 4800 : 400;
	my $begin = time;
	return rows_of('good', $name, $n), sub { return $n / ($other->stat('span_ms') / 1000 - $pulse->lost($begin, time)); };
}

server('bad', $mock, rpm => 100000);
server('good', $other, max_concurrency => 8);
given('base_ms=100');
my ($script, $measure) = throughput('alone');
ask($script);
my $alone = $measure->();
($script, $measure) = throughput('beside');
$mock->set('retry_after=1');
my $refused = q{SELECT infer.complete('bad/m', 'bad ' || i || CASE WHEN i > 1 THEN ' [[mock:429]]' ELSE '' END)
	FROM generate_series(1, 50) i};
$session = InferProc->start($node, 'both', "BEGIN; DECLARE c CURSOR FOR $refused; FETCH 1 FROM c;\n$script");
# the other session comes when this one has its row: retries go first, and there will be many
ok(InferTest::wait_until(60, sub { $other->stat('requests') > 0 }), 'fault_F24: both servers are asked');
my $beside = InferProc->start($node, 'refused', "$refused;");
($out, $err) = $session->finish;
like($out, qr/^rows\|(400|4800)$/m, 'fault_F24: all rows of the good server') or diag($err);
my $then = $measure->();
note(sprintf 'fault_F24: %.1f requests a second alone, %.1f beside a server that refuses', $alone, $then);
cmp_ok($then, '>', 0.9 * $alone, 'fault_F24: as fast as alone');
cmp_ok($mock->stat('rejected') + $mock->stat('failed'), '>', 2, 'fault_F24: the other server refused all the time');
is($out =~ /ERROR/ ? 1 : 0, 0, 'fault_F24: no error');
cancel('refused');
$beside->finish;

# ... nor is it in one and the same scan, whose calls of the one server wait behind those of the
# other: for a permit (429), or for its own requests (they hang).
server('stuck', $mock); # of which nothing bad is known
foreach ([ 'bad', '429' ], [ 'stuck', 'hang' ])
{
	my ($bad, $fault) = @$_;
	$other->reset;
	$start = time;
	my $mixed = InferProc->start($node, "mixed $fault", qq{SET pg_inference.congestion_max_window = 8;
		SELECT count(infer.complete(CASE WHEN bad THEN '$bad/m' ELSE 'good/m' END,
			'$fault ' || i || CASE WHEN bad THEN ' [[mock:$fault]]' ELSE '' END))
		FROM generate_series(1, 200) i, LATERAL (SELECT i % 10 = 0 OFFSET 0) s(bad)});
	ok(InferTest::wait_until(30, sub { $other->stat('items') == 180 }), "fault_F24: $fault: all calls of the good server")
	  or diag($other->stat('items'));
	note(sprintf 'fault_F24: in %.1f s, where 2.3 are needed', time - $start);
	cancel('mixed %');
	$mixed->finish;
}

# ----------------------------------------------------------------------------------------------
# fault_F49: two servers refuse, and want two seconds: the statement waits for both at once, and
# succeeds.

server('left', $mock);
server('right', $other);
given('retry_after=2', 'fault_429=100');
$session = InferProc->start($node, 'both', $clock
	  . q{SELECT 'rows', count(infer.complete('left/m', 'left ' || i)), count(infer.complete('right/m', 'right ' || i))
	FROM generate_series(1, 1) i;} . "\n" . $clock);
ok(InferTest::wait_until(60, sub { $mock->stat('failed') == 1 && $other->stat('failed') == 1 }),
	'fault_F49: both servers have refused');
$_->set('fault_429=0') foreach $mock, $other;
($out, $err) = $session->finish;
like($out, qr/^rows\|1\|1$/m, 'fault_F49: the statement succeeds') or diag($err);
my ($begin, $end) = $out =~ /^clock\|([\d.]+)$/mg;
note(sprintf 'fault_F49: after %.2f s', $end - $begin);
cmp_ok($end - $begin, '>=', 2, 'fault_F49: not before the servers wanted');
cmp_ok($end - $begin - $pulse->lost($begin, $end), '<', 4, 'fault_F49: for both at once');
is($mock->stat('requests') + $other->stat('requests'), 4, 'fault_F49: with one attempt more for each');

# ----------------------------------------------------------------------------------------------
# fault_F50, fault_F52: a server that always says it is overloaded gets one request for each pause
# that it wants, however many sessions wait; a second one is treated like the first.

my %cooling = (fault_F50 => [ 'cool_a', $mock ], fault_F52 => [ 'cool_b', $other ]);
server('cool_a', $mock, max_concurrency => 4);
server('cool_b', $other, max_concurrency => 4);
given('retry_after=1', 'fault_429=100');
my @sessions;
foreach my $fault (sort keys %cooling)
{
	my $key = $cooling{$fault}[0];
	push @sessions, map { InferProc->start($node, "cool $key $_", rows_of($key, "$key $_", 20)) } 1 .. 6;
}
foreach my $fault (sort keys %cooling)
{
	my ($key, $at) = @{ $cooling{$fault} };
	ok(InferTest::wait_until(60, sub { admission($key, 'current_limit <= 1') eq 't' }),
		"$fault: the limit is at its floor");
	$start = time;
	my $failed = $at->stat('requests');
	sleep 5;
	my $probes = $at->stat('requests') - $failed;
	$took = time - $start;
	note(sprintf '%s: %d requests in %.1f s, %d before', $fault, $probes, $took, $failed);
	cmp_ok($probes, '<=', $took + 1, "$fault: a request a pause");
	cmp_ok($probes, '>', 0, "$fault: but it is tried again");
}
$_->set('fault_429=0') foreach $mock, $other;
foreach my $session (@sessions)
{
	($out, $err) = $session->finish;
	push @{ $cooling{done} }, $out if $out eq "rows|20\n";
}
is(scalar(@{ $cooling{done} // [] }), 12, 'fault_F50, fault_F52: all are answered when the servers are well');

# ----------------------------------------------------------------------------------------------
# fault_F93: batches do not wait for each other: as many are under way as may be, all the time. Nobody
# says how many the server takes; the second statement. That many are what its window and the key's
# limit both allow. It begins with what the key has learnt, and is too short for the limit to grow
# (core/limiter.h, ENDING) until its last batches are sent; so the figures at its end, which have
# grown in the meantime, would say more than ever could be under way.

given('base_ms=100', 'dim=8');

# The second of two statements of a new key.
sub batches
{
	my ($key) = @_;
	my ($limit, $plan);

	server($key, $mock, max_batch_size => 16);
	foreach (1 .. 2)
	{
		$limit = admission($key, 'floor(current_limit)');
		$plan = ask(qq{SET pg_inference.streaming_mode = automatic; EXPLAIN (ANALYZE, FORMAT JSON)
			SELECT infer.embed('$key/m', '$key $_ ' || i) FROM generate_series(1, 10000) i});
	}
	my %figure = $plan =~ /"(Window Min|Peak In Flight|Execution Time)": ([\d.]+)/g;
	$figure{window} = min($limit, $figure{'Window Min'});
	$figure{ratio} = $figure{'Execution Time'} / (ceil(10000 / 16 / $figure{window}) * 100);
	note(join ', ', map { "$_ $figure{$_}" } sort keys %figure);
	return \%figure;
}

# Who else uses the machine does not disturb each of five; the fault would.
my $most = $ENV{PG_INFERENCE_LONG} ? 1.2 : 1.5;
my $figure;
foreach my $try (1 .. 5)
{
	$figure = batches("batches $try");
	last if $figure->{ratio} <= $most;
}
cmp_ok($figure->{window}, '>=', 16, 'fault_F93: many batches at a time');
cmp_ok($figure->{'Peak In Flight'}, '>=', $figure->{window}, 'fault_F93: as many are under way as may be');
cmp_ok($figure->{ratio}, '<=', $most, 'fault_F93: the statement takes as long as that many batches side by side');

# ----------------------------------------------------------------------------------------------
# fault_F94: a thousand requests in flight cost nothing while they wait.

server('idle', $mock, max_concurrency => 1000);
given('fault_hang=100');
$session = InferProc->start($node, 'idle', "SET pg_inference.buffer_memory = '256MB';\n" . rows_of('idle', 'idle', 1100));
ok(InferTest::wait_until(60, sub { $mock->stat('in_flight') == 1000 }), 'fault_F94: a thousand requests are in flight')
  or diag($mock->stat('in_flight'));
my $pid = $session->backend;
sleep 0.5;
($before, $start) = (cpu_ms($pid), time);
sleep 3;
my $cpu = cpu_ms($pid) - $before;
$each = $cpu / (time - $start); # ms / 1000 connections = us a connection
note(sprintf 'fault_F94: %.3f us of CPU a second for each idle connection', $each);
cmp_ok($each, '<=', 5, 'fault_F94: no more than 5 us of CPU a second for each');
cancel('idle');
$session->finish;

$node->stop;
done_testing();
