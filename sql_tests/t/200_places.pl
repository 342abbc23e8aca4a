# Models on several servers: who is asked, how they are kept busy, and where a call goes after a
# failure. gw_5, gw_10, fail_P46, fail_P55, fail_P57, fail_P58, fail_P60.
use strict;
use warnings;
use InferTest;
use InferProc;
use InferPulse;
use List::Util qw(max min sum0);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $long = $ENV{PG_INFERENCE_LONG};
my @names = qw(a1 a2 b1 b2);
my %mock = map { $_ => InferTest::Mock->new } @names;
my $node = InferTest::new_node('places', 'pg_inference.streaming_mode = per_row',
	'pg_inference.gateway = off');
my $pulse = InferPulse->new;
my $fresh = 0;

sub ask { return $node->safe_psql('postgres', join("\n", @_)); }

# What psql says on stderr.
sub error { return InferTest::error($node, @_); }

sub given
{
	my (%settings) = @_;
	foreach my $name (@names)
	{
		$mock{$name}->set('defaults', 'queue=100000', 'tokens=4', @{ $settings{all} // [] },
			@{ $settings{$name} // [] });
		$mock{$name}->reset;
	}
	return;
}

# New servers at the four addresses, of which nothing is known yet, and a model of task $task on
# them: a1 and a2 on node a, b1 and b2 on node b. Each has an admission key of its own.
sub model
{
	my ($task, %options) = @_;
	my $n = ++$fresh;
	my $sql = qq{SELECT infer.create_model('m$n', '$task');};
	foreach my $name (@names)
	{
		my $url = $mock{$name}->url;
		my %of = (node => substr($name, 0, 1) . $n, admission_key => "$name.$n", %options);
		my $list = join('', map { ", $_ '$of{$_}'" } sort keys %of);
		$sql .= qq{CREATE SERVER "$name.$n" FOREIGN DATA WRAPPER pg_inference
			OPTIONS (url '$url/v1'$list);
			SELECT infer.add_placement('m$n', '$name.$n', 'mock');};
	}
	ask("CREATE EXTENSION IF NOT EXISTS pg_inference;", $sql);
	return "m$n";
}

# requests that each mock had, "a1 a2 b1 b2"
sub requests { return join(' ', map { $mock{$_}->stat('requests') } @names); }

sub number { my ($model) = @_; return substr($model, 1); }

# Options that want the servers in that order.
sub preferring
{
	my ($model, @wanted) = @_;
	my $n = number($model);
	my $list = join(', ', map { qq{"$_.$n"} } @wanted);
	return qq{"route_prefs": {"prefer": [$list]}};
}

# One call; options as the members of a JSON object.
sub outcome
{
	my ($columns, $model, $text, @options) = @_;
	my $options = join(', ', @options);
	return ask("SELECT $columns FROM infer.try_complete('$model', '$text', '{}', '{$options}')");
}

# The error of one that fails; settings before it.
sub failure
{
	my ($settings, $model, $text, @options) = @_;
	my $options = join(', ', @options);
	return error($settings, "SELECT infer.complete('$model', '$text', '{}', '{$options}')");
}

sub at_rest
{
	my $busy = ask(q{SELECT coalesce(sum(in_flight + waiting), 0) FROM infer.stat_admission});
	is($busy, 0, "$_[0]: no permit is held, and nobody waits");
	return;
}

# ----------------------------------------------------------------------------------------------
# Who is asked: rights, and what the request says.

my $m = model('complete');
my $n = number($m);
given();
is( outcome('server, reason, attempts', $m, 'x', qq("nodes": ["b$n"]), preferring($m, 'b2')),
	"b2.$n||1", 'gw_3: the server that the request wants answers, and is named');
is(requests(), '0 0 0 1', '... and no other was asked');
is( outcome('server, reason, execution, attempts', $m, 'x', '"nodes": ["z"]'),
	'|no_dest|not_admitted|0', 'gw_8: nothing suits: no server is named, and none was asked');
like(
	failure('', $m, 'x', '"nodes": ["z"]'),
	qr/RNNOD: call of model "$m" failed: no server of the model suits the request.*DETAIL:  "nodes" leaves none of its 4 placements\. Nothing was sent\./s,
	'gw_8: the error names what left nothing');
like(
	failure('', $m, 'x', qq("route_prefs": {"include": ["a1.$n", "b1.$n"]})),
	qr/RCCFG: the call to model "$m" needs 2 servers at once/,
	'gw_3: what needs several servers at once is no call inside a statement');
ask("CREATE ROLE someone; GRANT USAGE ON SCHEMA infer TO someone;",
	qq{GRANT USAGE ON FOREIGN SERVER "b1.$n" TO someone;});
given();
ask('SET ROLE someone;', "SELECT infer.complete('$m', 'y ' || i) FROM generate_series(1, 4) i");
is(requests(), '0 0 4 0', 'gw_3: servers without USAGE are not asked');
like(
	failure('SET ROLE someone;', $m, 'x', qq("nodes": ["a$n"])),
	qr/42501: permission denied for foreign server a[12]\.$n/,
	'gw_8: want of USAGE is an error of its own');
is( ask('SET ROLE someone;',
		qq{SELECT (infer.try_complete('$m', 'keyed', '{}', '{"idempotency_key": true}')).server}),
	"b1.$n", '... nor is anything of theirs needed for a key of idempotency');
ask(qq{REVOKE USAGE ON FOREIGN SERVER "b1.$n" FROM someone});
like(failure('SET ROLE someone;', $m, 'x'),
	qr/42501: permission denied for foreign server/, '... also without any');
is(requests(), '0 0 5 0', '... and nothing was sent');

# ----------------------------------------------------------------------------------------------
# gw_5: a walk over two nodes with two servers each ends at the right one, in the right order.

sub order_seen
{
	my ($text) = @_;
	my %at;
	foreach my $name (@names)
	{
		my $entry = $mock{$name}->ledger->{$text} or next;
		$at{$name} = $entry->{first_seen};
	}
	return join(' ', sort { $at{$a} <=> $at{$b} } keys %at);
}

my @refuse = ('fault_429=100', 'retry_after=-1');
given(all => \@refuse, b2 => ['fault_429=0']);
$m = model('complete');
$n = number($m);
is(outcome('server, reason, attempts', $m, 'walk', preferring($m, qw(a1 b1 a2 b2))),
	"b2.$n||4", 'gw_5: the fourth server answers');
is(order_seen('walk'), 'a1 a2 b1 b2', 'gw_5: first the others of the node, then the other node');
given(all => \@refuse);
$m = model('complete');
$n = number($m);
like(
	failure('', $m, 'in vain', '"max_attempts": 3', preferring($m, qw(a1 a2 b1))),
	qr/RNOVL: call of model "$m" on server "b1\.$n" failed.*after 3 attempts.*Servers tried: a1\.$n \(overloaded, not_admitted\), a2\.$n \(overloaded, not_admitted\), b1\.$n \(overloaded, not_admitted\)\./s,
	'gw_5: the last failure is reported, with all attempts');
like(
	failure('SET pg_inference.stage1_retries = 0; SET pg_inference.stage2_retries = 1;',
		$m, 'few', preferring($m, qw(a1 a2 b1 b2))),
	qr/on server "b1\.$n" failed.*after 2 attempts.*Servers tried: a1\.$n \([^)]*\), b1\.$n \([^)]*\)\./s,
	'gw_5: stages have their limits');
# ... and all attempts together have the time of the call: of rounds that the servers want a second apart,
# so many as begin within it, and it does not wait for the next one
given(all => [ 'fault_429=100', 'retry_after=1' ]);
$m = model('complete');
my ($told, $attempts, $elapsed) = split /\|/,
  outcome('reason, attempts, extract(epoch FROM elapsed)', $m, 'in time', '"timeout": 2900, "max_attempts": 30');
is($told, 'overloaded', 'gw_5: refused until its time is over');
ok($attempts > 4 && $attempts <= 12, 'gw_5: a retry keeps the deadline of its call') or diag("$attempts attempts");
cmp_ok($elapsed, '<', 2.9, 'gw_5: ... and the call ends when the next pause is longer than that');
# what may have been executed goes nowhere else, unless the call permits that
given(a1 => ['fault_lost=100']);
$m = model('complete');
$n = number($m);
my $wanted = preferring($m, qw(a1 a2));
is( outcome('server, reason, execution, attempts', $m, 'once', $wanted),
	"a1.$n|disconnected|maybe_executed|1",
	'fail_P55: what may have run is not sent to another server');
is(outcome('server, reason, attempts', $m, 'again', '"retry": "ambiguous"', $wanted),
	"a2.$n||2", '... but with retry ambiguous it is');
is(requests(), '2 1 0 0', '... and nobody else was asked');

# what has an idempotency key goes again to the server that has seen it, and to no other one
sub keys_seen { my $stats = $mock{ $_[0] }->stats; return "$stats->{request_ids} keys, $stats->{duplicate_request_ids} again"; }
given(a1 => ['fault_lost=100']);
$m = model('complete', idempotency => 'honoured');
is( outcome('reason, execution, attempts', $m, 'with a key', '"idempotency_key": true', preferring($m, qw(a1 a2))),
	'disconnected|maybe_executed|4', 'fail_P55: what may have run is repeated where its key is known');
is(requests() . ', ' . keys_seen('a1'), '4 0 0 0, 1 keys, 3 again', '... under that key, and nobody else is asked');
given(a1 => ['fault_lost=100']);
$m = model('complete', idempotency => 'honoured');
is(outcome('reason, attempts', $m, 'without a key', preferring($m, 'a1')), 'disconnected|1', '... but not without one');
given(a1 => \@refuse, a2 => ['fault_500=100']);
$m = model('complete', idempotency => 'honoured');
my $keyed = InferProc->start($node, 'keyed', "SELECT server || ' ' || attempts FROM infer.try_complete('$m', 'keyed', '{}', '{"
	. join(', ', '"idempotency_key": true, "timeout": "20s", "max_attempts": 12', preferring($m, qw(a1 a2 b1))) . "}');");
InferTest::wait_until(30, sub { $mock{a2}->stat('requests') >= 2 }) or die;
$mock{$_}->set('defaults', 'tokens=4') foreach qw(a1 a2);
like(($keyed->finish)[0], qr/^a2\.\d+ \d+$/, '... whoever else is well again meanwhile, the one that it was lost at answers');
is((split / /, requests())[0], 1, '... and the first one is not asked again');
# one that does not honour it
$m = model('complete');
$n = number($m);
ask(qq{ALTER SERVER "a2.$n" OPTIONS (ADD idempotency 'honoured')});
given(a1 => ['fault_lost=100']);
is(outcome('reason, attempts', $m, 'with a key', '"idempotency_key": true', preferring($m, qw(a1 a2))),
	'disconnected|1', 'fail_P55: each server is judged by its own promise');
is(requests(), '1 0 0 0', '... and none knows the keys that another one has seen');
# other words would be another call: a batch that may have run is not sent in parts, whatever is learnt meanwhile
$m = model('embed', idempotency => 'honoured');
$n = number($m);
given(a1 => ['fault_500=100']);
my $parts = InferProc->start($node, 'parts', "SET pg_inference.streaming_mode = batch;
	SELECT count((o).value), string_agg(DISTINCT (o).reason || ' ' || (o).execution, ',') FROM (SELECT infer.try_embed('$m', 'part ' || i, '{}', '{"
	. join(', ', '"idempotency_key": true, "timeout": "20s", "max_attempts": 12', preferring($m, 'a1')) . "}') AS o FROM generate_series(1, 8) i OFFSET 0) s;");
InferTest::wait_until(30, sub { $mock{a1}->stat('requests') >= 1 }) or die;
$mock{a1}->set('defaults', 'limit_items=4', 'limit_status=413');
is(($parts->finish)[0], "0|request_too_large maybe_executed\n", 'fail_P55: what may have run is not said in other words for its key');
like(keys_seen('a1'), qr/^1 keys/, '... which these do not have');

# to go on to another server costs nothing of what a server may get of retries
given(a1 => ['fault_lost=100']);
$m = model('complete');
is( ask('SET pg_inference.failure_threshold = 0; SET pg_inference.enable = off;', qq{SELECT count(value), count(*) FILTER (WHERE attempts = 2) FROM generate_series(1, 60) i,
	infer.try_complete('$m', 'goes on ' || i, '{}', '{"retry": "ambiguous", @{[ preferring($m, 'a1', 'a2') ]}}')}),
	'60|60', 'gw_5: going on to another server is no retry that a server has to bear');
is(requests(), '60 60 0 0', '... each of them asked both');

# what is too large for one server is said in parts there, which shows what it takes, whoever's turn it is
foreach my $n (1 .. 3)
{
	given(all => [ 'limit_items=4', 'limit_status=413' ]);
	$m = model('embed');
	ask("SELECT infer.alter_model('$m', strategy => 'rr')");
	my $part = ask(qq{SET pg_inference.streaming_mode = batch;
		SELECT server FROM (SELECT i, infer.try_embed('$m', 'part ' || i) AS o FROM generate_series(1, 8) i OFFSET 0) s, LATERAL (SELECT (o).server) t WHERE i = 1});
	my ($refused) = grep { $mock{$_}->stat('failed') > 0 } @names;
	is($part, "$refused." . number($m), 'the parts of what a server refused: the first one is sent there');
}

# a retry is one class more urgent, which shows in the line of the second server
sub in_line
{
	my ($priority) = @_;
	given(a1 => \@refuse, a2 => ['hold=1']);
	$m = model('complete', max_concurrency => 1);
	$n = number($m);
	my $holder = InferProc->start($node, "holds $priority",
		qq{SELECT infer.complete('a2.$n/mock', 'long');});
	InferTest::wait_until(30, sub { $mock{a2}->stat('in_flight') == 1 }) or die;
	my $caller = InferProc->start($node, "calls $priority",
		"SELECT server || ' ' || attempts FROM infer.try_complete('$m', 'urgent', '{}', '{"
		. qq("nodes": ["a$n"], "priority": "$priority", ) . preferring($m, 'a1') . "}');");
	my $seen = '';
	InferTest::wait_until(30, sub {
			return $seen = ask(qq{SELECT priority FROM infer.stat_queue WHERE key = 'a2.$n'}); });
	$mock{a2}->set('hold=0');
	$holder->finish;
	my ($answer) = $caller->finish;
	chomp $answer;
	return $seen . ($answer eq "a2.$n 2" ? '' : " ($answer)");
}
is(join(' ', map { in_line($_) } qw(LOW NORMAL VHIGH)), 'NORMAL HIGH VHIGH',
	'gw_5: each retry is one class more urgent, up to the highest');

# what is refused for its size or its words is no attempt: the walk goes on where it was
sub batch
{
	my ($model, $rows, $options) = @_;
	return ask("SET statement_timeout = '20s';", qq{SELECT string_agg(DISTINCT what, ' ') FROM (
		SELECT coalesce((o).reason, 'ok') || ',' || coalesce((o).server, '') || ',' || (o).attempts AS what
		FROM (SELECT infer.try_embed('$model', 'of many ' || i, '{}', '{"streaming_mode": "batch", $options}') AS o
			FROM generate_series(1, $rows) i OFFSET 0) x) y});
}
given(a1 => \@refuse, a2 => [ 'limit_items=1', 'no_base64=1' ]);
$m = model('embed');
$n = number($m);
is(batch($m, 4, preferring($m, qw(a1 a2 b1))), "ok,a2.$n,2",
	'gw_5: a batch that is refused for its words and its size goes on in parts, where it was');
is(requests(), '1 8 0 0', '... once for its words, then in halves and theirs');
# nor does its time begin with it: parts wait for their turn as whole ones do
given(all => [ 'limit_items=1', 'base_ms=500' ]);
$m = model('embed', max_concurrency => 1);
$n = number($m);
like(batch($m, 10, qq("nodes": ["a$n"], "timeout": "2400ms")), qr/^ok,a1\.$n,1( ok,a2\.$n,1)?$/,
	'gw_5: the time of its parts begins when they leave');

# ----------------------------------------------------------------------------------------------
# Strategy rr: each model has turns of its own.

given();
my @turns = map { model('complete') } 1 .. 2;
ask(map { "SELECT infer.alter_model('$_', strategy => 'rr');" } @turns);
my %nodes;
my $sql = join("\n", map { my $i = $_; map { "SELECT server FROM infer.try_complete('$_', 'turn $i');" } @turns } 1 .. 4);
$nodes{$_}++ foreach map { s/\d\././r } split /\n/, ask($sql);
is_deeply(\%nodes, { map { $n = number($_); map { ("$_.$n" => 2) } qw(a b) } @turns },
	'gw_3: two models that are called in turn both go round');

# ----------------------------------------------------------------------------------------------
# fail_P42, fail_P58: a server that does not have the model is left out; when none has it, that is
# an error of its own, at once.

given(a1 => ['fault_nomodel=100']);
$m = model('complete');
$n = number($m);
$wanted = preferring($m, qw(a1 a2));
is(join(' ', map { outcome('server, attempts', $m, "dead $_", $wanted) } 1 .. 3),
	"a2.$n|2 a2.$n|1 a2.$n|1", 'fail_P42: it is asked once, and others answer');
given(all => ['fault_nomodel=100']);
like(failure('', $m, 'nobody'),
	qr/RNNFD: .*Servers tried: /s, 'fail_P58: the last one says so itself');
my $before = time;
like(
	failure('', $m, 'nobody again'),
	qr/RCSTL: call of model "$m" failed: no server of the model has it any more/,
	'fail_P58: then nobody is asked any more');
cmp_ok($pulse->since($before), '<', 0.9, '... and nothing is waited for');
ask(qq{SELECT infer.alter_placement('$m', 'a1.$n', weight => 2)});
given();
is(outcome('reason', $m, 'new set'), '', 'fail_P58: a new set begins anew');

# one that is loading has done nothing: others are asked, whatever may be repeated
given(a1 => ['fault_loading=100']);
$m = model('complete');
$n = number($m);
is(outcome('server, attempts', $m, 'loads', preferring($m, qw(a1 a2))),
	"a2.$n|2", 'gw_7: one that loads its model is passed over');

# ----------------------------------------------------------------------------------------------
# fail_P57: all are down. A call waits for a while, tries one, and says so; when they have come back
# without anybody's knowing, it is that one that finds out.

given();
$m = model('complete');
$n = number($m);
# a server that fails is left alone for a tenth of a second, not longer
ask('ALTER SYSTEM SET pg_inference.failure_cooldown = 100;', 'SELECT pg_reload_conf()');
my %port = map { $_ => $mock{$_}->url =~ /:(\d+)$/ } @names;
$_->stop foreach values %mock;
my $reason = '';
ok( InferTest::wait_until(30, sub {
			$reason = outcome("reason || ' ' || execution", $m, 'down ' . time);
			return $reason =~ /^all_failed/; }),
	'gw_8: all are down, after a while');
is($reason, 'all_failed not_admitted', '... which is an error of its own');
like(
	failure('', $m, 'all down'),
	qr/RNALF: call of model "$m" failed: all servers of the model are down/,
	'... in words');
%mock = map { $_ => InferTest::Mock->new('-p', $port{$_}, 'queue=100000', 'tokens=4') } @names;
# ... and a call to just one server, after that, waits in its line as ever
$mock{a1}->set('hold=1');
ask("CREATE SERVER busy FOREIGN DATA WRAPPER pg_inference OPTIONS (url '" . $mock{a1}->url . "/v1', max_concurrency '1')");
my $holder = InferProc->start($node, 'holder', q{SELECT infer.complete('busy/mock', 'late');});
ok(InferTest::wait_until(30, sub { $mock{a1}->stat('in_flight') == 1 }), 'one server is busy');
$mock{a1}->set('hold=2');
$before = time;
my $patient = InferProc->start($node, 'patient', qq{SELECT reason FROM infer.try_complete('$m', 'healed');
	SELECT reason, attempts FROM infer.try_complete('busy/mock', 'patient');});
ok(InferTest::wait_until(30, sub { ask("SELECT count(*) FROM infer.stat_queue WHERE key LIKE '%:$port{a1}%'") eq '1' }),
	'who asks one server alone waits in its line');
cmp_ok($pulse->since($before), '<', 6, 'fail_P57: ... after the wait for all of them, and an attempt');
$mock{a1}->set('hold=0');
is(join(' ', $patient->finish), "\n|1\n ", 'fail_P57: one is tried all the same, and is back; so is the one that was waited for');
$holder->finish;
ask('ALTER SYSTEM RESET pg_inference.failure_cooldown;', 'SELECT pg_reload_conf()');

# ----------------------------------------------------------------------------------------------
# fail_P46: given up, also where it was not decided yet where a call goes.

given(all => ['fault_hang=100']);
$m = model('complete', max_concurrency => 2);
like(
	error("SET statement_timeout = '300ms';",
		"SELECT infer.complete('$m', 'given up ' || i) FROM generate_series(1, 100) i"),
	qr/ERROR:  57014: canceling statement due to statement timeout/, 'fail_P46: a backlog is given up');
at_rest('given up');

# ----------------------------------------------------------------------------------------------
# A backlog keeps servers of unequal speed busy, without weights: what they take is found out.

sub speeds
{
	my ($label, $rows, $least, %options) = @_;
	my %ms = (a1 => 20, a2 => 20, b1 => 40, b2 => 80);
	my $slots = 8;
	given(map { $_ => [ "slots=$slots", "base_ms=$ms{$_}", 'jitter=0' ] } @names);
	my $m = model('complete', %options);
	my $capacity = sum0(map { $slots * 1000 / $_ } values %ms);
	my $sql = qq{SELECT count(*) FILTER (WHERE r IS NOT NULL) FROM (
		SELECT infer.complete('$m', '$label ' || i) AS r FROM generate_series(1, $rows) i) x};
	my ($answered, $seconds) = split /\n/, ask(
		"SELECT clock_timestamp() AS before \\gset", $sql,
		"; SELECT extract(epoch FROM clock_timestamp() - :'before')");
	$seconds -= $pulse->lost(time - $seconds, time);
	is($answered, $rows, "$label: all are answered");
	my %share = map { $_ => $mock{$_}->stat('requests') * $ms{$_} / $slots / 1000 / $seconds } @names;
	note(sprintf "%s: %d rows in %.2f s, %.3f of the capacity; busy: %s", $label, $rows, $seconds,
		$rows / $seconds / $capacity, join(' ', map { sprintf "%s %.2f", $_, $share{$_} } @names));
	cmp_ok($rows / $seconds / $capacity, '>=', $least, "$label: the capacity is used");
	return;
}

speeds('told', $long ? 20000 : 3000, $long ? 0.95 : 0.7, max_concurrency => 8);
speeds('untold', $long ? 20000 : 3000, $long ? 0.95 : 0.6);

# ----------------------------------------------------------------------------------------------
# A server dies in the midst of a scan. What it was doing may have been done: with retry ambiguous it
# is asked of another one, else those rows say so, and they alone.

my $slots = 8;

sub dies
{
	my ($label, $options, $rows) = @_;
	my $ms = 20;
	given(all => [ "slots=$slots", "base_ms=$ms" ]);
	my $m = model('embed', max_concurrency => $slots);
	my $n = number($m);
	my $session = InferProc->start($node, $label, qq{
		CREATE TABLE "$label" AS SELECT i, (o).value IS NOT NULL AS answered, (o).reason,
			(o).execution, (o).attempts, (o).server, clock_timestamp() AS at
			FROM (SELECT i, infer.try_embed('$m', '$label ' || i, '{}', '$options') AS o
				FROM generate_series(1, $rows) i) x;});
	ok(InferTest::wait_until(60, sub { $mock{b2}->stat('requests') >= $rows / 20 }),
		"$label: all four are busy") or diag(requests());
	my $executed = keys %{ $mock{b2}->ledger };
	kill 'KILL', $mock{b2}->pid;
	my $killed = time;
	my @out = $session->finish;
	is($out[1], '', "$label: the scan comes to its end");
	my $left = ask(qq{SELECT count(*) FROM "$label" WHERE at > to_timestamp($killed)});
	my $end = ask(qq{SELECT extract(epoch FROM max(at)) FROM "$label"});
	my $seconds = $end - $killed - $pulse->lost($killed, $end);
	note(sprintf "%s: after the death %d rows in %.2f s, %.2f of what three can do; it had had %d; errors: %s",
		$label, $left, $seconds, $left / $seconds / (3 * $slots * 1000 / $ms), $executed,
		ask(qq{SELECT string_agg(r, ', ') FROM (SELECT reason || ' ' || execution || ' ' || server || ' ' ||
			count(*) AS r FROM "$label" WHERE NOT answered GROUP BY reason, execution, server) x}));
	cmp_ok($left / $seconds, '>=', ($long ? 0.9 : 0.5) * 3 * $slots * 1000 / $ms,
		"$label: the others go on at their speed");
	is(ask(qq{SELECT count(*), count(DISTINCT i) FROM "$label"}), "$rows|$rows",
		"$label: each row is there once");
	is(scalar(map { @{ $mock{$_}->items(2) } } qw(a1 a2 b1)), 0,
		 "$label: no server was asked twice for a row");
	at_rest($label);
	$mock{b2}->stop;
	$mock{b2} = InferTest::Mock->new('-p', $port{b2});
	return $n;
}

my $rows = $long ? 10000 : 2500;
dies('ambiguous', '{"retry": "ambiguous"}', $rows);
is(ask(q{SELECT count(*) FROM ambiguous WHERE answered}), $rows, 'retry ambiguous: all are answered');
my $of = dies('default', '{}', $rows);
my ($bad, $unsure, $there) = split /\|/, ask(
	qq{SELECT count(*), count(*) FILTER (WHERE execution = 'maybe_executed' AND reason = 'disconnected'),
		count(*) FILTER (WHERE server = 'b2.$of') FROM "default" WHERE NOT answered});
cmp_ok($bad, '>=', 1, 'default: what was under way there has failed');
# It had as many in flight as there are permits. A process that is killed closes its listening socket last, so each of them
# may be followed by one that still connects, waits there, and is lost with that; who comes later cannot connect, and has
# not been sent.
cmp_ok($bad, '<=', 2 * $slots, '... and no more than were in flight there, and one after each');
is("$unsure $there", "$bad $bad", 'default: it may have been executed, and says where');

# ----------------------------------------------------------------------------------------------
# RANDOM keeps its share also where batches wait: who waits is decided once, and not each time it is
# looked at.

given(all => ['base_ms=10']);
$m = model('complete', max_concurrency => 4);
my $k = number($m);
ask(qq{SELECT infer.alter_placement('$m', 'a1.$k', version => '1.00'), infer.alter_placement('$m', 'a2.$k', version => '2.00'),
	infer.drop_placement('$m', 'b1.$k'), infer.drop_placement('$m', 'b2.$k')});
my $share = ask(qq{SET pg_inference.test_percent = 20;
	SELECT count(*) FILTER (WHERE server = 'a2.$k')
	FROM generate_series(1, 1500) i, infer.try_complete('$m', 'random ' || i, '{}', '{"test_ctl": "RANDOM"}')});
note("$share of 1500 at 20 %");
cmp_ok(abs($share - 300), '<=', 4 * sqrt(1500 * 0.2 * 0.8), 'gw_10: RANDOM at 20 % is 20 % of what waits, too');

# ----------------------------------------------------------------------------------------------
# A statement goes on with a server that was altered since. The table knows nothing of it any more, so what it
# knew last (three requests in flight) is not held against it for the rest of the statement.

given();
$m = model('complete');
$k = number($m);
ask(qq{SELECT infer.drop_placement('$m', 'b1.$k'), infer.drop_placement('$m', 'b2.$k')});
my $busy = InferProc->start($node, 'busy', qq{SELECT count(infer.complete('a1.$k/mock', '[[mock:hang]] ' || i)) FROM generate_series(1, 3) i;});
InferTest::wait_until(30, sub { $mock{a1}->stat('in_flight') == 3 }) or die;
my $altered = InferProc->start($node, 'altered', qq{SET pg_inference.random_seed = 1;
	DO \$\$ DECLARE before bigint := (SELECT generation FROM infer.stat_servers WHERE server = 'a1.$k');
	BEGIN
		FOR i IN 1 .. 12 LOOP PERFORM infer.complete('$m', 'before ' || i); END LOOP;
		WHILE before = (SELECT generation FROM infer.stat_servers WHERE server = 'a1.$k') LOOP PERFORM pg_sleep(0.02); END LOOP;
		FOR i IN 1 .. 24 LOOP PERFORM infer.complete('$m', 'after ' || i); END LOOP;
	END \$\$;});
InferTest::wait_until(30, sub { $mock{a2}->ledger->{'before 12'} }) or die;
ask(qq{ALTER SERVER "a1.$k" OPTIONS (SET url '@{[ $mock{b1}->url ]}/v1')}, qq{; SELECT infer.complete('a1.$k/mock', 'publishes')});
is(join('', $altered->finish), '', 'altered: the statement ends well');
sub executed { my ($name, $pattern) = @_; my $l = $mock{$name}->ledger; return scalar(grep { /^$pattern/ && $l->{$_}{executed} } keys %$l); }
is(executed('a1', 'before'), 0, 'gw_3: a server that has enough to do gets nothing');
cmp_ok(executed('a1', 'after'), '>=', 3, 'gw_3: ... and when nothing is known of it any more, that does not count');
is(executed('a1', 'after') + executed('a2', 'after'), 24, '... and the statement has gone on with the servers that it knew');
ask('SELECT pg_cancel_backend(' . $busy->backend . ')');
$busy->finish;
is(ask(q{SELECT count(*) FROM infer.stat_servers WHERE in_flight <> 0 OR outstanding <> 0}), 0, 'fail_P46: nothing is outstanding that was so under another url');

# ----------------------------------------------------------------------------------------------
at_rest('at the end');
done_testing();
