# Budgets over many sessions, and usage over restarts: no session of a role gets more than they all
# may have, what was not sent comes back, and what was spent is known after whatever happened.
use strict;
use warnings;
use InferTest;
use InferProc;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $mock = InferTest::Mock->new('tokens=10');
my $node = PostgreSQL::Test::Cluster->new('usage');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf',
	join("\n", "shared_preload_libraries = 'pg_inference'", 'restart_after_crash = on', 'pg_inference.usage_save_interval = 1d', ''));
$node->start;
my $file = $node->data_dir . '/pg_stat/pg_inference.usage';
InferTest::connect_mock($node, $mock);
my ($socks, $full) = InferProc::full_listener();
sub ask { return $node->safe_psql('postgres', join("\n", @_)); }

ask(qq{
	CREATE SERVER lost FOREIGN DATA WRAPPER pg_inference OPTIONS (url 'http://127.0.0.1:$full/v1');
	SELECT infer.create_model('paid', 'complete', 'mock', 'paid', 1000, 10000);
	CREATE ROLE app LOGIN; CREATE ROLE tokens LOGIN; CREATE ROLE money LOGIN; CREATE ROLE other LOGIN;
	GRANT USAGE ON FOREIGN SERVER mock, lost TO app, tokens, money, other;
	ALTER ROLE app SET pg_inference.daily_call_budget = 100;
	ALTER ROLE tokens SET pg_inference.daily_token_budget = 500;
	ALTER ROLE money SET pg_inference.daily_cost_budget = 3;});

sub ask_as
{
	my ($role, @sql) = @_;
	return $node->safe_psql('postgres', join("\n", @sql), extra_params => [ '-U', $role ]);
}

# ... and its error.
sub error_of
{
	my ($role, @sql) = @_;
	my ($status, $out, $err) =
	  $node->psql('postgres', join("\n", @sql), extra_params => [ '-U', $role, '-v', 'VERBOSITY=verbose' ]);
	return $err;
}

sub used { return ask("SELECT coalesce(sum($_[1]), 0) FROM infer.stat_usage WHERE usename = '$_[0]'"); }
sub dump_usage { return ask('SELECT * FROM infer.stat_usage ORDER BY stat_usage::text'); }
sub log_of { return slurp_file($node->logfile); }

# Starts again after a kill: what is left of the old server must have gone.
sub start_again
{
	my $tries = 0;
	while (!$node->start(fail_ok => 1) && $tries++ < 300)
	{
		$node->stop('fast', fail_ok => 1);
		sleep 0.1;
	}
	return;
}

# Sessions of one role that all begin at once and want more than there is.
sub compete
{
	my ($role, $sql) = @_;
	my @sessions;
	$mock->reset;
	foreach my $n (1 .. 8)
	{
		my $script = $sql;
		$script =~ s/:n/$n/g;
		# the role is the session's user, as if it had logged in with its settings
		$script = join('', map { "SET $_;\n" }
			split(/\n/, ask("SELECT unnest(setconfig) FROM pg_db_role_setting WHERE setrole = '$role'::regrole")))
		  . "SET SESSION AUTHORIZATION $role;\n$script;\n";
		push @sessions, $script;
	}
	return map { $_->[0] . $_->[1] } InferProc::run_all($node, $role, @sessions);
}

# fault_F66: eight sessions, four with batches, and each of the calls that are left is made once.
$mock->set('base_ms=3', 'jitter=0.5');
my @got = compete('app',
	q{SELECT 'rows', count(infer.embed('m', 'app :n ' || i, '{"dimensions": 4}',
		jsonb_build_object('on_error', 'null', 'dispatch_batch_size', CASE WHEN :n < 5 THEN 1 ELSE 3 END)))
	FROM generate_series(1, 30) i});
my $rows = 0;
$rows += /^rows\|(\d+)$/m ? $1 : 0 foreach @got;
is($rows, 100, 'calls: eight sessions get what their role has, all of it') or diag(@got);
is($mock->stat('items'), 100, 'calls: and so the server saw it');
is($mock->stat('duplicate_items'), 0, 'calls: each once');
is(used('app', 'calls'), 100, 'calls: which is shown');
is(used('app', 'attempts'), $mock->stat('requests'), 'fault_F54: attempts are what the server saw');
like(
	error_of('app', q{SELECT infer.embed('m', 'one more')}),
	qr/ERROR:  RNBUD: .*a budget does not allow it\nDETAIL:  pg_inference.daily_call_budget is 100, used are 100 today. Nothing was sent.\nHINT:  The next day begins at midnight UTC/,
	'fault_F66: and then says which budget it was');

# Tokens and money: requests on their way count as what they may take, so together they keep below.
# A prompt of 4 bytes is guessed as 2 tokens and counted as 1, an answer has 10: so 12 are kept for 11, and
# as many as are on their way when the last one is refused may stay below by 1 each.
@got = compete('tokens', q{SELECT count(infer.complete('mock/t', 't:n' || 10 + i, '{"max_tokens": 10}', '{"on_error": "null"}'))
	FROM generate_series(1, 20) i});
my $tokens = used('tokens', 'input_tokens + output_tokens');
cmp_ok($tokens, '<=', 500, 'tokens: together they keep below the limit');
cmp_ok($tokens, '>', 500 - 12 - 42, 'tokens: and use it');
is($tokens, $mock->stat('prompt_tokens') + $mock->stat('completion_tokens'), 'tokens: as the server counted them');
@got = compete('money', q{SELECT count(infer.complete('paid', 'm:n' || 10 + i, '{"max_tokens": 10}', '{"on_error": "null"}'))
	FROM generate_series(1, 20) i});
my $cost = used('money', 'cost');
cmp_ok($cost, '<=', 3, 'cost: together they keep below the limit');
cmp_ok($cost, '>', 3 - 0.102 - 0.030, 'cost: and use it');

# What a session had charged comes back when it ends, unless it may have been executed.
my $big = q{SET pg_inference.connect_timeout = '60s'; SET pg_inference.request_timeout = '60s';};
# ... as the refusal says; where there is none yet, the server refuses, and that costs nothing.
sub charged
{
	my $err = error_of('app', "SELECT infer.complete('mock/probe', '[[mock:403]]')");
	return $err =~ /used are (\d+) today/ ? $1 : $err;
}
ask('ALTER ROLE app SET pg_inference.daily_call_budget = 104');
my $admin = q{SET pg_inference.daily_call_budget = 104; SET SESSION AUTHORIZATION app;};
my $session = InferProc->start($node, 'lost', "$admin $big SET pg_inference.streaming_mode = batch;
	SELECT count(infer.embed('lost/x', 'lost ' || i)) FROM generate_series(1, 9) i;");
my $pid = $session->backend;
# a probe while it charges would take one of its calls
$node->poll_query_until('postgres', "SELECT in_flight = 1 FROM infer.stat_progress WHERE pid = $pid") or die 'nothing is sent';
is(charged(), 104, 'terminated: what waits for a connection is charged');
kill 'TERM', $pid;
$session->finish;
is(error_of('app', q{SELECT infer.complete('c', 'has room ' || i) FROM generate_series(1, 2) i}), '',
	'terminated: what has not left comes back');
$mock->set('fault_hang=100');
$session = InferProc->start($node, 'hang', "$admin SELECT count(infer.complete('c', 'hang ' || i)) FROM generate_series(1, 9) i;");
ok(InferTest::wait_until(60, sub { $mock->stat('in_flight') == 2 }), 'terminated: two calls are on their way');
is(charged(), 104, 'terminated: they are charged');
kill 'TERM', $session->backend;
$session->finish;
$mock->set('fault_hang=0');
is(charged(), 104, 'terminated: what may have been executed stays charged');
is(used('app', 'calls'), 104, 'terminated: and is shown');
is(ask(q{SELECT estimated, failed FROM infer.stat_usage WHERE usename = 'app' AND remote_model = 'mock' AND task = 'complete'}),
	'2|2', 'terminated: as an estimate');

# A cancel in the midst: attempts are what the server saw.
$mock->set('base_ms=20');
$mock->reset;
ask(q{SET SESSION AUTHORIZATION other; SET statement_timeout = '300ms'; SET pg_inference.max_attempts = 10;
	DO $$ BEGIN PERFORM infer.complete('mock/cancelled', 'x ' || i) FROM generate_series(1, 5000) i;
	EXCEPTION WHEN query_canceled THEN NULL; END $$});
my $sent = ask(q{SELECT attempts FROM infer.stat_usage WHERE remote_model = 'cancelled' AND attempts > 1 AND failed > 0});
ok(InferTest::wait_until(10, sub { $mock->stat('requests') == $sent }), 'fault_F54: after a cancel, too')
  or diag("$sent attempts, " . $mock->stat('requests') . ' requests');
$mock->set('base_ms=0');

# A restart loses nothing, and neither does an immediate one, whose last process still writes.
my $before = dump_usage();
foreach my $mode (qw(fast immediate))
{
	$node->stop($mode);
	$node->start;
	is(dump_usage(), $before, "$mode shutdown: all figures are there");
	is(charged(), 104, "$mode shutdown: and count");
}

# After a crash the figures count that were written last. Of one process ...
sub save_interval
{
	my ($value) = @_;
	$node->append_conf('postgresql.conf', "pg_inference.usage_save_interval = $value");
	$node->reload;
	$node->poll_query_until('postgres', 'SHOW pg_inference.usage_save_interval', $value) or die 'no reload';
	return;
}

sub spend_written_and_not
{
	my ($name) = @_;
	save_interval('0');
	ask(q{SET SESSION AUTHORIZATION other; SELECT infer.complete('mock/written', 'a')});
	$before = dump_usage();
	save_interval('1d');
	ask(q{SET SESSION AUTHORIZATION other; SELECT infer.complete('mock/forgotten', 'a')});
	isnt(dump_usage(), $before, "$name: there is something to lose");
	return;
}
spend_written_and_not('crashed process');
$session = InferProc->start($node, 'victim', 'SELECT pg_sleep(60);');
kill 'KILL', $session->backend;
$session->finish;
$node->poll_query_until('postgres', 'SELECT true') or die 'no recovery';
is(dump_usage(), $before, 'crashed process: the last written figures are there');
is(charged(), 104, 'crashed process: and count');
# ... and of all.
spend_written_and_not('crash');
$node->kill9;
start_again('crash');
is(dump_usage(), $before, 'crash: the last written figures are there');
is(charged(), 104, 'crash: and count');

# A file that cannot be read: it is kept, and nobody has a budget that cannot be held to it, also
# after another start, however the server ended, until a superuser says so.
my $lost = qr/RNBUD: .*\nDETAIL:  the role has a daily budget, and what it has spent today is not known, for the server could not read it. Nothing was sent.\nHINT:  .*infer.reset_usage\(\)/;
sub break_file
{
	my ($how) = @_;
	my $bytes = slurp_file($file);
	$bytes = $how->($bytes);
	open(my $out, '>:raw', $file) or die "$file: $!";
	print $out $bytes;
	close $out;
	return $bytes;
}
foreach my $case (
	[ 'a bit is wrong', sub { my $b = $_[0]; substr($b, length($b) - 30, 1) ^= "\x01"; $b }, 'its checksum is wrong' ],
	[ 'its end is missing', sub { substr($_[0], 0, length($_[0]) - 1) }, 'another size' ],
	[ 'it is empty', sub { '' }, 'too short' ],
	[ 'it is of another version', sub { my $b = $_[0]; substr($b, 4, 1) = "\x63"; $b }, 'another format' ])
{
	my ($name, $how, $problem) = @$case;
	$node->stop;
	unlink "$file.bad";
	my $bytes = break_file($how);
	my $from = -s $node->logfile;
	$node->start;
	like(substr(log_of(), $from), qr/WARNING:  pg_inference could not read file "pg_stat\/pg_inference.usage": .*$problem/,
		"bad file, $name: the log says so");
	is(-e "$file.bad" ? slurp_file("$file.bad") : undef, $bytes, "bad file, $name: it is kept");
	like(error_of('app', q{SELECT infer.complete('c', 'x')}), $lost, "bad file, $name: a budget is refused");
	is(ask_as('other', q{SELECT infer.complete('c', 'x') IS NOT NULL}), 't', "bad file, $name: others go on");
	$node->kill9;
	start_again("bad file, $name");
	like(error_of('tokens', q{SELECT infer.complete('c', 'x')}), $lost, "bad file, $name: still after a crash");
	$node->restart;
	like(error_of('money', q{SELECT infer.complete('paid', 'x')}), $lost, "bad file, $name: still after a restart");
	ask('SELECT infer.reset_usage()');
	is(ask_as('app', q{SELECT infer.complete('c', 'x') IS NOT NULL}), 't', "bad file, $name: until it is accepted");
	$node->kill9;
	start_again("bad file, $name, accepted");
	is(ask_as('app', q{SELECT infer.complete('c', 'y') IS NOT NULL}), 't', "bad file, $name: for good");
}

# A standby has a file of its own; a base backup brings it what was spent so far.
ask(q{SELECT infer.reset_usage()});
ask_as('app', q{SELECT infer.complete('mock/primary', 'x' || i) FROM generate_series(1, 3) i});
$node->restart;
$node->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'copy');
$standby->set_standby_mode;
$standby->append_conf('postgresql.conf', 'hot_standby = on');
$standby->start;
my $asked = q{SELECT count(infer.complete('mock/standby', 'x' || i, '{}', '{"on_error": "null"}')) FROM generate_series(1, 200) i};
is($standby->safe_psql('postgres', $asked, extra_params => [ '-U', 'app' ]), 101, 'standby: has its own budget, less what it was copied with');
$standby->restart;
is($standby->safe_psql('postgres', q{SELECT sum(calls) FROM infer.stat_usage WHERE usename = 'app'}), 104, 'standby: and keeps its figures');
is(used('app', 'calls'), 3, 'standby: the primary counts its own');
$standby->stop;
$node->stop;

# A small table: the oldest days become a row per role, then the one who has the most; sums stay
# right. Without room for its account a role with a budget is refused.
my $small = InferTest::new_node('small', 'pg_inference.max_usage_entries = 4');
InferTest::connect_mock($small, $mock);
sub small { return $small->safe_psql('postgres', join("\n", @_)); }
sub call_as { return join('', map { "SET SESSION AUTHORIZATION $_[0]; SELECT infer.complete('mock/$_', 'x'); RESET SESSION AUTHORIZATION;" } @_[ 1 .. $#_ ]); }
sub shape { return small(q{SELECT string_agg(concat_ws(' ', CASE WHEN day IS NULL THEN 'older' WHEN day > now() + interval '36 hours' THEN 'later' ELSE 'today' END,
	coalesce(usename, '-'), remote_model, attempts), ', ' ORDER BY day NULLS FIRST, usename, remote_model) FROM infer.stat_usage}); }
small(map { "CREATE ROLE $_; GRANT USAGE ON FOREIGN SERVER mock TO $_;" } qw(r1 r2 r3 r4 r5));
my $later = 'SET pg_inference.usage_day_offset = 5;';
small(call_as('r1', 'a', 'b', 'c'), call_as('r2', 'a'));
is(shape(), 'today r1 a 1, today r1 b 1, today r1 c 1, today r2 a 1', 'full: four rows have room');
small(call_as('r2', 'b'));
is(shape(), 'today r1 3, today r2 a 1, today r2 b 1', 'full: who has the most has one row');
small($later, call_as('r1', 'a', 'b'));
is(shape(), 'older r1 3, older r2 2, later r1 a 1, later r1 b 1', 'full: the oldest day becomes a row per role');
small($later, call_as('r2', 'a'));
is(shape(), 'older r1 3, older r2 2, later r1 2, later r2 a 1', 'full: and then who has the most');
small($later, call_as('r3', 'c'), call_as('r4', 'c'), call_as('r2', 'a'));
is(shape(), 'older r1 3, older r2 2, older - 2, later r1 2, later r2 a 2', 'full: whoever comes then has no row, and sums stay right');
my ($status, $out, $err) = $small->psql('postgres', qq{$later SET pg_inference.daily_call_budget = 10; SET SESSION AUTHORIZATION r5; SELECT infer.complete('c', 'x')});
like($err, qr/there is no room to count what the role spends: pg_inference.max_usage_entries is 4/, 'full: a budget without an account is refused');
$small->restart;
is(shape(), 'older r1 3, older r2 2, older - 2, later r1 2, later r2 a 2', 'full: and so it is after a restart');
$small->stop;
done_testing();
