# Servers, placements, the extension, databases and the instance itself go and come while sessions
# call: the next statement sees it, what is under way ends, errors are clean ones, nothing is stuck.
use strict;
use warnings;
use InferTest;
use InferProc;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $rows = 6;   # a statement's
my %mock = map { $_ => InferTest::Mock->new('base_ms=20', 'jitter=0.4', 'reply=echo') } qw(s1 s2 s3 other);
my @servers = qw(s1 s2 s3);
my $node = InferTest::new_node('ddl', 'pg_inference.gateway = on', 'autovacuum = off');

sub ask { return $node->safe_psql($_[1] // 'postgres', $_[0]); }

# What a statement that fails says.
sub refused
{
	my ($sql) = @_;
	my (undef, undef, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql");
	return $err;
}

sub is_soon
{
	my ($code, $what) = @_;
	return ok(InferTest::wait_until(60, $code), $what);
}

# With so few permits that two sessions need all servers, be one ever so slow of late.
sub create_of
{
	my ($name) = @_;
	return "CREATE SERVER $name FOREIGN DATA WRAPPER pg_inference OPTIONS (url '@{[ $mock{$name}->url ]}/v1', max_concurrency '4');\n";
}
sub create_server { my ($name, $database) = @_; ask(create_of($name), $database); return; }

sub create_all
{
	return join('', "CREATE EXTENSION pg_inference;\n", map({ create_of($_) } @servers),
		qq{SELECT infer.create_model('all', 'complete', 's1', 'm');
		SELECT infer.add_placement('all', s, 'm') FROM unnest(ARRAY['s2', 's3']) AS s;\n});
}
sub set_up { my ($database) = @_; ask(create_all(), $database); return; }

# Sessions that make statement after statement until there is a table "enough": of each the number,
# how many rows had the answer that is theirs, and the reasons of the others.
my %load;
sub begin_load
{
	my ($n, $database) = @_;
	foreach my $name (map { 'load' . (1 + keys(%load)) . " $_" } 1 .. $n)
	{
		my $script = join('', map { qq{SELECT 'turn', $_, count(*) FILTER (WHERE value = '$name $_ ' || i), string_agg(DISTINCT reason, ' ')
			FROM generate_series(1, $rows) AS i, infer.try_complete('all', '$name $_ ' || i);
			SELECT to_regclass('public.enough') IS NOT NULL AS enough, pg_sleep(0.01) \\gset
			\\if :enough
			\\q
			\\endif\n} } 1 .. 4000);
		$load{$name} = InferProc->start($node, $name, $script, database => $database // 'postgres');
	}
	return;
}

sub turns { return { map { $_ => scalar(() = $load{$_}->slurp('out') =~ /^turn/mg) } keys %load }; }
sub answered { return { map { $_ => scalar(() = $load{$_}->slurp('out') =~ /^turn\|\d+\|$rows\|$/mg) } keys %load }; }

# Statements that have ended, one way or the other.
sub tried { return { map { $_ => scalar(() = ($load{$_}->slurp('out') . $load{$_}->slurp('err')) =~ /^turn|ERROR:/mg) } keys %load }; }

# Each session has begun and ended a statement since (by the given count of them).
sub go_on
{
	my ($what, $count) = @_;
	$count //= \&turns;
	my $before = $count->();
	return is_soon(sub { my $now = $count->(); return !grep { $now->{$_} < $before->{$_} + 2 } keys %$now; }, $what);
}

# That server gets requests, or gets none any more, while the sessions go on.
sub gets
{
	my ($mock, $what) = @_;
	my $before = $mock{$mock}->stat('items');
	return is_soon(sub { $mock{$mock}->stat('items') > $before + 3 }, $what);
}
sub gets_none
{
	my ($mock, $what) = @_;
	go_on("$what: the sessions go on", \&answered);
	my $before = $mock{$mock}->stat('items');
	go_on("$what: and on", \&answered);
	return is($mock{$mock}->stat('items'), $before, $what);
}

sub end_load
{
	ask('CREATE TABLE IF NOT EXISTS enough ()');
	my %out;
	foreach my $name (sort keys %load) { $out{$name} = [ $load{$name}->finish ]; }
	%load = ();
	ask('DROP TABLE enough');
	return \%out;
}

# All have ended: nothing is held, anywhere.
sub nothing_left
{
	my ($what) = @_;
	is_soon(sub { !grep { $_->stat('in_flight') } values %mock }, "$what: no request is left at a mock");
	is(ask('SELECT coalesce(sum(in_flight), 0), coalesce(sum(waiting), 0) FROM infer.stat_admission'),
		'0|0', "$what: no permit is out, nobody waits");
	is(ask('SELECT count(*) FROM infer.stat_servers WHERE in_flight <> 0 OR outstanding <> 0 OR waiting <> 0'),
		0, "$what: nothing is outstanding at a server");
	is(ask('SELECT count(*) FROM infer.stat_queue'), 0, "$what: the queue is empty");
	return;
}

# A session whose call is not answered.
sub hold
{
	my ($name, $model, $database) = @_;
	my $session = InferProc->start($node, $name, "SELECT infer.complete('$model', '[[mock:hang]] $name');\nSELECT 'next';\n",
		database => $database // 'postgres');
	is_soon(sub { $mock{s1}->ledger->{"[[mock:hang]] $name"} }, "$name: its request is in flight");
	return $session;
}

# ----------------------------------------------------------------------------------------------
# Servers and placements: no row is lost, none runs twice.

set_up('postgres');
begin_load(4);
gets($_, "$_ is in use") foreach @servers;

my ($here, $there) = map { $mock{$_}->url . '/v1' } qw(s1 other);
ask("ALTER SERVER s1 OPTIONS (SET url '$there')");
ask(q{SELECT infer.complete('s1/m', 'after the change')});
ok($mock{other}->ledger->{'after the change'}, 'another url: the next statement goes there');
gets('other', 'another url: those of all sessions do');
gets_none('s1', 'another url: the old one gets nothing');
ask("ALTER SERVER s1 OPTIONS (SET url '$here')");
gets('s1', 'the url of before: it is in use again');
gets_none('other', 'the url of before: the other is not');

ask(q{ALTER SERVER s1 OPTIONS (ADD node 'elsewhere')});
is_soon(sub { ask(q{SELECT node FROM infer.stat_servers WHERE server = 's1'}) eq 'elsewhere' }, 'another node: the table knows it');
gets('s1', 'another node: it is in use');
ask(q{ALTER SERVER s1 OPTIONS (DROP node)});
is_soon(sub { ask(q{SELECT node FROM infer.stat_servers WHERE server = 's1'}) ne 'elsewhere' }, 'the node of before');

ask('DROP SERVER s2');
is(ask(q{SELECT problem FROM infer.placements WHERE server = 's2'}), 'no such server', 'dropped: its placement stays');
gets_none('s2', 'dropped: it gets nothing');
is(ask(q{SELECT count(*) FROM infer.stat_servers WHERE server = 's2'}), 0, 'dropped: the table does not show it');
like(refused(q{SELECT infer.complete('s2/m', 'gone')}), qr{ERROR:  \w{5}: server "s2" does not exist}, 'dropped: who names it is told');
create_server('s2');
ask(q{CREATE USER MAPPING FOR PUBLIC SERVER s2});
gets('s2', 'created again: it is in use');
like(refused('DROP SERVER s2'), qr/ERROR:  2BP01/, 'with a user mapping: it is not dropped');
ask('DROP SERVER s2 CASCADE');
gets_none('s2', 'with CASCADE: it is');
create_server('s2');
gets('s2', 'created once more: it is in use');

ask(q{SELECT infer.drop_placement('all', 's3')});
gets_none('s3', 'placement dropped: it gets nothing');
ask(q{SELECT infer.add_placement('all', 's3', 'm')});
gets('s3', 'placement added: it is in use');
my $version = q{(SELECT set_version + 1 FROM infer.models WHERE name = 'all')};
ask(qq{SELECT infer.replace_placements('all', '[{"server": "s2", "remote_model": "m"}]', $version)});
gets_none($_, "placements replaced: $_ gets nothing") foreach qw(s1 s3);
ask(qq{SELECT infer.replace_placements('all', '[{"server": "s1", "remote_model": "m"}, {"server": "s2", "remote_model": "m"},
	{"server": "s3", "remote_model": "m"}]', $version)});
gets($_, "placements replaced again: $_ is in use") foreach @servers;

{
	my $out = end_load();
	my ($turns, $wrong) = (0, 0);
	foreach my $name (sort keys %$out)
	{
		my @lines = split /\n/, $out->{$name}[0];
		my @wrong = grep { !/^turn\|\d+\|$rows\|$/ } @lines;
		is("@wrong", '', "$name: each row of each statement had its answer");
		is($out->{$name}[1], '', "$name: without a word");
		$turns += @lines;
	}
	my (%executed, $twice);
	foreach my $ledger (map { $_->ledger } values %mock)
	{
		$executed{$_} += $ledger->{$_}{executed} foreach grep { /^load/ } keys %$ledger;
	}
	is(scalar(keys %executed), $turns * $rows, "$turns statements: the servers have executed their texts");
	is(scalar(grep { $_ != 1 } values %executed), 0, '... each of them once');
	nothing_left('servers');
}

# ----------------------------------------------------------------------------------------------
# A server goes between two looks into the catalogs, which takes many tries to hit: it is missing,
# for an owner of everything as for others, and the model has another one.

{
	my $come_and_go = qq{DROP SERVER s2; CREATE SERVER s2 FOREIGN DATA WRAPPER pg_inference OPTIONS (url '@{[ $mock{s2}->url ]}/v1');
		GRANT USAGE ON FOREIGN SERVER s2 TO joe;\n};
	ask('CREATE ROLE joe; GRANT USAGE ON FOREIGN SERVER s1, s2, s3 TO joe');
	$_->set('base_ms=0') foreach values %mock;
	my @callers = map {
		InferProc->start($node, "calls as $_", "SET ROLE $_;\n" . join('', map {
			qq{SELECT (infer.try_complete('s2/m', '$_')).value; SELECT 'all', infer.complete('all', '$_') IS NOT NULL;
			SELECT to_regclass('public.enough') IS NOT NULL AS enough \\gset
			\\if :enough
			\\q
			\\endif\n} } 1 .. 30000))
	} $node->safe_psql('postgres', 'SELECT current_user'), 'joe';
	is_soon(sub { !grep { $_->slurp('out') !~ /^all/m } @callers }, 'tries: both call');
	InferProc->start($node, 'comes and goes', $come_and_go x 4000)->finish;
	ask('CREATE TABLE enough ()');
	foreach my $caller (@callers)
	{
		my ($out, $err) = $caller->finish;
		is(join("\n", grep { !/^ERROR:  RCCFG: server "s2" does not exist$|^ERROR:  42501: permission denied for foreign server s2$/ } errors($err)),
			'', "tries: $caller->{name}: clean errors only");
		unlike($out, qr/^all\|f/m, "tries: $caller->{name}: the model had another server");
	}
	ask('DROP TABLE enough; DROP OWNED BY joe; DROP ROLE joe');
	$_->set('base_ms=20') foreach values %mock;
	nothing_left('tries');
}

# ----------------------------------------------------------------------------------------------
# The extension goes while sessions run statements, and comes back.

# What a statement may say that has met the extension on its way out, or gone.
my $gone = qr{^ERROR:\ \ (?:\w{5}:\ )?(?:function\ infer\.\w+\(.*\)\ does\ not\ exist(?:\ at\ character\ \d+)?
	|schema\ "infer"\ does\ not\ exist(?:\ at\ character\ \d+)?
	|pg_inference\ is\ not\ installed\ in\ this\ database
	|(?:model|server)\ "\w+"\ does\ not\ exist)$}xm;

# A session's ERRORs, each kind once.
sub errors
{
	my ($err) = @_;
	my %seen = map { $_ => 1 } $err =~ /((?:ERROR|FATAL|PANIC|WARNING):.*)$/mg;
	return sort keys %seen;
}

# Who has found its tables and waits for their locks: they are gone then, or others are there.
foreach my $then (create_all(), '')
{
	my $word = $then ? 'exchanged' : 'gone';
	my $dropper = InferProc->start($node, "$word: drops", "BEGIN;\nDROP EXTENSION pg_inference CASCADE;\n$then"
		  . q{DO $$BEGIN WHILE NOT EXISTS (SELECT FROM pg_class WHERE relname = 'enough') LOOP PERFORM pg_sleep(0.01); END LOOP; END$$;} . "\nCOMMIT;\n");
	is_soon(sub { ask(q{SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND relation = to_regclass('infer.model_catalog')
		AND EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep')}) },
		"$word: the extension is being dropped");
	my %waits = map { $_->[0] => InferProc->start($node, "$word: $_->[0]", "$_->[1];\n") } (
		[ reads => q{SET plan_cache_mode = force_generic_plan; PREPARE p AS SELECT infer.complete($1, 'waits'); EXECUTE p('all')} ],
		[ writes => q{SELECT infer.create_model('new', 'complete', 's1', 'm')} ]);
	is_soon(sub { ask(q{SELECT count(*) FROM pg_locks WHERE NOT granted}) >= 2 }, "$word: others wait for its tables");
	ask('CREATE TABLE enough ()');
	is(join(' ', errors(($dropper->finish)[1])), '', "$word: it is dropped");
	ask('DROP TABLE enough');
	foreach my $name (sort keys %waits)
	{
		my ($out, $err) = $waits{$name}->finish;
		my @errors = errors($err);
		if ($then) { is("@errors", '', "$word: who $name goes on"); }
		else { like("@errors", qr/^ERROR:  RCCFG: pg_inference is not installed in this database$/, "$word: who $name is told"); }
	}
}
set_up('postgres');

begin_load(4);
go_on('extension: sessions run statements', \&answered);
{
	# who has read its tables in a transaction makes DROP wait; both can be cancelled
	my $reader = InferProc->start($node, 'reader', "BEGIN; SELECT count(*) > 0 FROM infer.models;\n"
		  . "SELECT infer.complete('s1/m', '[[mock:hang]] reader');\nROLLBACK;\n");
	is_soon(sub { $mock{s1}->ledger->{'[[mock:hang]] reader'} }, 'reader: its request is in flight');
	my $drop = sub {
		my $dropper = InferProc->start($node, $_[0], 'DROP EXTENSION pg_inference CASCADE;');
		my $pid = $dropper->backend;
		is_soon(sub { ask("SELECT wait_event_type FROM pg_stat_activity WHERE pid = $pid") eq 'Lock' }, "$_[0]: waits for it");
		return $dropper;
	};
	my $dropper = $drop->('impatient');
	ask('SELECT pg_cancel_backend(' . $dropper->backend . ')');
	like(join(' ', errors(($dropper->finish)[1])), qr/^ERROR:  57014/, 'impatient: is cancelled');
	go_on('impatient: the sessions go on as if nothing had been', \&answered);

	my $holder = hold('holder', 's1/m');
	my $long = InferProc->start($node, 'long', q{SELECT count(infer.complete('all', 'long ' || i)) FROM generate_series(1, 400) AS i;});
	is_soon(sub { grep { $_->ledger->{'long 1'} } values %mock }, 'long: a statement of 400 rows is under way');
	$dropper = $drop->('patient');
	ask('SELECT pg_cancel_backend(' . $reader->backend . ')');
	like(join(' ', errors(($reader->finish)[1])), qr/^ERROR:  57014/, 'reader: is cancelled');
	is(join(' ', errors(($dropper->finish)[1])), '', 'patient: then the extension is dropped');
	go_on('dropped: no session hangs', \&tried);

	my ($out, $err) = $long->finish(60);
	ok($out eq "400\n" || $err =~ $gone, "long: ends ($out$err)");
	ask('SELECT pg_cancel_backend(' . $holder->backend . ')');
	($out, $err) = $holder->finish;
	like(join(' ', errors($err)), qr/^ERROR:  57014: canceling statement due to user request$/, 'holder: is cancelled, though nothing is there any more');
	is($out, "next\n", 'holder: its session goes on');
}
set_up('postgres');
go_on('created again: the same sessions are served', \&answered);
gets($_, "created again: $_ is in use") foreach @servers;
{
	my $out = end_load();
	foreach my $name (sort keys %$out)
	{
		my @errors = errors($out->{$name}[1]);
		cmp_ok(scalar(@errors), '>', 0, "$name: has met it");
		is(join("\n", grep { $_ !~ $gone } @errors), '', "$name: with clean errors");
		is(join("\n", grep { !/^turn\|\d+\|$rows\|$/ } split /\n/, $out->{$name}[0]), '',
			"$name: what did not fail has all of its rows");
	}
	nothing_left('extension');
}

# ----------------------------------------------------------------------------------------------
# A database goes whose sessions have calls under way.

{
	ask('CREATE DATABASE leaves');
	set_up('leaves');
	begin_load(2, 'leaves');
	go_on('database: sessions run statements', \&answered);
	my $holder = hold('held in leaves', 's1/m', 'leaves');
	like(refused('DROP DATABASE leaves'), qr/ERROR:  55006/, 'database in use: it is not dropped');
	go_on('database in use: its sessions go on', \&answered);
	is(refused('DROP DATABASE leaves WITH (FORCE)'), '', 'with FORCE: it is');
	like(($holder->finish)[1], qr/FATAL:  57P01/, 'with FORCE: who had a call in flight is told');
	foreach my $name (sort keys %load)
	{
		like(join(' ', errors(($load{$name}->finish)[1])), qr/^FATAL:  57P01/, "$name: is told as well");
	}
	%load = ();
	nothing_left('with FORCE');
	is(ask(q{SELECT count(*) FROM infer.stat_servers WHERE database = 'leaves'}), 0, 'with FORCE: its servers are gone');

	ask('CREATE DATABASE leaves');
	set_up('leaves');
	is(ask(q{SELECT infer.complete('all', 'once more')}, 'leaves'), 'once more', 'another one of that name: calls work');
	is(refused('DROP DATABASE leaves'), '', 'unused: it is dropped, the gateway is not in the way');
	is(ask(q{SELECT count(*) FROM infer.stat_servers WHERE database = 'leaves'}), 0, 'unused: its servers are gone');
}

# ----------------------------------------------------------------------------------------------
# The instance is restarted while sessions call.

foreach my $mode (qw(fast immediate))
{
	begin_load(3);
	my $holder = hold("held in $mode", 's1/m');
	go_on("$mode: sessions run statements", \&answered);
	$node->stop($mode);
	is_soon(sub { !grep { $_->stat('in_flight') } values %mock }, "$mode: requests end at the mock");
	like(($_->finish)[1], qr/57P0[12]|server closed the connection/, "$mode: a session is told") foreach $holder, values %load;
	%load = ();
	$node->start;
	is(ask(qq{SELECT infer.complete('all', 'after $mode')}), "after $mode", "$mode: the model answers");
	begin_load(2);
	gets($_, "$mode: $_ is in use again") foreach @servers;
	my $out = end_load();
	is(join('', map { $_->[1] } values %$out), '', "$mode: without a word");
	is(ask(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'pg_inference gateway'}), 1, "$mode: the gateway is there");
	nothing_left($mode);
}

# ----------------------------------------------------------------------------------------------
# What the log says of all that.

$node->stop;
{
	my @lines = split /\n/, slurp_file($node->logfile);
	my @crashes = grep { /PANIC|TRAP|was terminated by signal|server process \(|exited with exit code [^01]/ } @lines;
	is("@crashes", '', 'log: nothing crashed');
	my $own = qr{canceling\ statement\ due\ to\ user\ request
		|server\ "s2"\ does\ not\ exist
		|cannot\ drop\ server\ s2\ because
		|permission\ denied\ for\ foreign\ server\ s2
		|database\ "leaves"\ is\ being\ accessed
		|terminating\ (?:connection|background\ worker)
		|the\ database\ system\ is\ (?:starting\ up|shutting\ down)}x;
	my @odd = grep { !/^\w+:  $own/ && $_ !~ $gone } map { /((?:ERROR|FATAL|WARNING):  .*)/ } @lines;
	is(join("\n", @odd), '', 'log: only errors that are due');
	is(join(' ', glob($node->data_dir . '/core*')), '', 'log: no core file');
}
done_testing();
