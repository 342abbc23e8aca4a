# API keys are used, and stay where they are: outside SQL. A dump holds what names a key and restores
# to a database that works; no key shows in dump, log, statistics, EXPLAIN or error.
use strict;
use warnings;
use InferTest;
use InferProc;
use InferTrap;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my %key = (
	file => 'sk-in-a-file-Quaeph8ohx',
	env => 'sk-in-a-variable-Ooxai4ahsh',
	rotated => 'sk-rotated-Eeth0waeno',
	wrong => 'sk-wrong-Ahng9quuiz',
	far => 'sk-far-Iesh3Ahnoo');
my $folder = PostgreSQL::Test::Utils::tempdir;
my $key_file = "$folder/api.key";

sub write_key
{
	my ($key) = @_;
	# all at once, as who rotates keys should
	open(my $out, '>', "$key_file.new") or die $!;
	chmod 0600, "$key_file.new";
	print $out "$key\n";
	close $out or die $!;
	rename "$key_file.new", $key_file or die $!;
	return;
}

my $mock = InferTest::Mock->new("api_key=$key{file}", 'dim=4');
my ($sharedir) = run_command([ 'pg_config', '--sharedir' ]);
my $has_statements = -e "$sharedir/extension/pg_stat_statements.control";
my $node = PostgreSQL::Test::Cluster->new('secrets');
$node->init;
$node->append_conf('postgresql.conf', join("\n",
	q{shared_preload_libraries = 'pg_inference} . ($has_statements ? q{,pg_stat_statements'} : q{'}),
	'log_statement = all',
	'log_min_duration_statement = 0',
	'log_error_verbosity = verbose',
	'log_parameter_max_length_on_error = -1',
	'debug_print_plan = on',
	'debug_print_rewritten = on',
	'track_activity_query_size = 16384',
	''));
{
	local $ENV{LD_PRELOAD} = InferProc::build_slow_dns($folder);
	local $ENV{INFER_TEST_KEY} = $key{env};
	$node->start;
}
# Only now, for PostgreSQL itself writes its whole environment to the log when it starts with debug3
# or more: no place for a key in a variable then, as the documentation says.
$node->append_conf('postgresql.conf', 'log_min_messages = debug5');
$node->reload;

sub ask { return $node->safe_psql('postgres', join("\n", @_)); }

# Everything that anybody said or saw, to be searched at the end.
my %seen;

sub attempt
{
	my ($sql, $database) = @_;
	my (undef, $out, $err) = $node->psql($database // 'postgres', "\\set VERBOSITY verbose\n$sql");
	$seen{'what clients are told'} .= "$out\n$err\n";
	my ($state) = $err =~ /ERROR:  (\w{5}): /;
	return $state // $out;
}

# ----------------------------------------------------------------------------------------------
# Setting up, in all ways that the documentation knows.

write_key($key{file});
InferTest::connect_mock($node, $mock, max_concurrency => 8);
my $url = $mock->url;
ask('CREATE EXTENSION pg_stat_statements') if $has_statements;
is(attempt(q{SELECT infer.embed('m', 'no mapping') IS NOT NULL}),
	'RNAUT', 'without a mapping no key is sent');
ask(qq{CREATE ROLE app;
	GRANT USAGE ON FOREIGN SERVER mock TO app;
	CREATE USER MAPPING FOR app SERVER mock OPTIONS (api_key_file '$key_file');
	CREATE SERVER by_env FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$url/v1');
	GRANT USAGE ON FOREIGN SERVER by_env TO app;
	CREATE USER MAPPING FOR PUBLIC SERVER by_env OPTIONS (api_key_env 'INFER_TEST_KEY');
	SET ROLE app;
	SELECT infer.create_model('apps', 'complete', 'by_env', 'remote');
	RESET ROLE;
	SELECT infer.alter_model('apps', input_price => 0.15, output_price => 0.6);});

my $as_app = 'SET ROLE app;';
is(attempt("$as_app SELECT infer.embed('m', 'by file') IS NOT NULL"),
	't', 'the key of the file is sent');
is(attempt(q{SELECT infer.embed('m', 'not app') IS NOT NULL}),
	'RNAUT', 'it is sent for the role that has the mapping only');
is(attempt("$as_app SELECT infer.complete('apps', 'by env') IS NOT NULL"),
	'RNAUT', 'another key is another key');
$mock->set("api_key=$key{env}");
is(attempt("$as_app SELECT infer.complete('apps', 'by env') IS NOT NULL"),
	't', 'the key of the variable is sent');
is(attempt("$as_app SELECT infer.embed('m', 'by file 2') IS NOT NULL"), 'RNAUT', 'and not the other');

# ----------------------------------------------------------------------------------------------
# A key that is rotated counts from the next attempt on, within a statement too.

write_key($key{wrong});
$mock->set("api_key=$key{file}");
is(attempt("$as_app SELECT infer.embed('m', 'wrong') IS NOT NULL"), 'RNAUT', 'a wrong key is refused');
write_key($key{file});
is(attempt("$as_app SELECT infer.embed('m', 'right again') IS NOT NULL"), 't', 'a right one is read anew');

$mock->set('fault_429=100', 'retry_after=1');
$mock->reset;
my $session = InferProc->start($node, 'rotate',
	"$as_app SELECT 'attempts', (o).attempts, (o).value IS NOT NULL
	FROM (SELECT infer.try_embed('m', 'rotate ' || i) AS o FROM generate_series(1, 1) i OFFSET 0) s;");
ok(InferTest::wait_until(60, sub { $mock->stat('requests') == 1 }), 'the first attempt is rejected');
write_key($key{rotated});
$mock->set('fault_429=0', "api_key=$key{rotated}");
my ($out, $err) = $session->finish;
is($out, "attempts|2|t\n", 'the second attempt has the new key');
$seen{'what clients are told'} .= "$out$err";

# ----------------------------------------------------------------------------------------------
# Not over the open network, unless the server says so.

my $far_mock = InferTest::Mock->new("api_key=$key{far}");
my ($port) = $far_mock->url =~ /:(\d+)$/;
write_key($key{far});
ask(qq{CREATE SERVER far FOREIGN DATA WRAPPER pg_inference OPTIONS (url 'http://far.test:$port/v1');
	CREATE USER MAPPING FOR CURRENT_USER SERVER far OPTIONS (api_key_file '$key_file')});
is(attempt(q{SELECT infer.embed('far/mock', 'far') IS NOT NULL}),
	'RCCLR', 'fail_P67: a key does not leave in clear text');
is($far_mock->stat('requests'), 0, 'fail_P67: nothing else leaves either');
my $trap = InferTrap->new;
ask(q{CREATE SERVER trap FOREIGN DATA WRAPPER pg_inference OPTIONS (url 'http://far.test:} . $trap->port . qq{/v1');
	CREATE USER MAPPING FOR CURRENT_USER SERVER trap OPTIONS (api_key_file '$key_file')});
is(attempt(q{SELECT (o).reason, (o).execution, (o).attempts FROM infer.try_complete('trap/mock', 'far') o}),
	'credential_withheld|not_admitted|0', 'fail_P67: the proof says so');
# the gateway asks it how it is, without a key
is($trap->seen =~ s/GET \S+ HTTP\/1\.1\r\n(?:(?!authorization)[^\r\n]+\r\n)*\r\n//gir,
	'', 'fail_P67: nobody sends it anything but probes without a key');
ask(q{DROP SERVER trap CASCADE});
ask(q{ALTER SERVER far OPTIONS (ADD allow_cleartext 'true')});
is(attempt(q{SELECT infer.embed('far/mock', 'far') IS NOT NULL}),
	't', 'a server may say that its network is trusted');
is($far_mock->stat('ok'), 1, 'then the key arrives');
ask(qq{DROP SERVER far CASCADE;
	CREATE SERVER near FOREIGN DATA WRAPPER pg_inference OPTIONS (url 'http://localhost:$port/v1');
	CREATE USER MAPPING FOR CURRENT_USER SERVER near OPTIONS (api_key_file '$key_file')});
is(attempt(q{SELECT infer.embed('near/mock', 'near') IS NOT NULL}),
	't', 'loopback is no network');
ask(q{DROP SERVER near CASCADE});
write_key($key{rotated});

# ----------------------------------------------------------------------------------------------
# Where one might look: EXPLAIN, activity, statistics.

foreach my $format (qw(text json))
{
	attempt("$as_app EXPLAIN (ANALYZE, VERBOSE, SETTINGS, FORMAT $format)
		SELECT infer.embed('m', 'explained ' || i) FROM generate_series(1, 10) i");
}
like($seen{'what clients are told'}, qr/InferScan/, 'EXPLAIN was seen');

$mock->set('fault_hang=100');
$mock->reset;
$session = InferProc->start($node, 'hangs',
	"$as_app SELECT infer.embed('m', 'hang ' || i) FROM generate_series(1, 10) i;");
ok(InferTest::wait_until(60, sub { $mock->stat('requests') > 0 }), 'a call is on its way');
$seen{pg_stat_activity} = ask('SELECT a::text FROM pg_stat_activity a');
like($seen{pg_stat_activity}, qr/infer\.embed/, 'activity was seen');
$seen{'statistics'} = ask('SELECT a::text FROM infer.stat_admission a');
$seen{'the settings'} = ask(q{SELECT name || setting FROM pg_settings WHERE name ~ 'infer'});
ask('SELECT pg_cancel_backend(' . $session->backend . ')');
$seen{'what clients are told'} .= join('', $session->finish);
$mock->set('fault_hang=0');
$seen{pg_stat_statements} = ask('SELECT s::text FROM pg_stat_statements s') if $has_statements;
$seen{'the catalogs'} = ask(q{SELECT m::text FROM pg_user_mappings m},
	q{; SELECT s::text FROM pg_foreign_server s; SELECT m::text FROM infer.model_catalog m});

# ----------------------------------------------------------------------------------------------
# Dump and restore.

sub dump_of
{
	my ($database) = @_;
	my $file = "$folder/$database.sql";
	$node->command_ok([ 'pg_dump', '-f', $file, '-d', $node->connstr($database) ],
		"database $database is dumped");
	my $text = slurp_file($file);
	$text =~ s/^\\(?:un)?restrict .*\n//mg;    # random in each dump
	return $text;
}

ask(q{SELECT infer.create_model('placed', 'embed', 'mock'); SELECT infer.add_placement('placed', 'by_env', 'elsewhere', version => '1.10', weight => 0.5, feeds => '{a,b}',
	ts_range => '[2024-01-01,)', is_primary => true, service_class => 'embed');
	SELECT infer.alter_model('c', min_version => '1.00', ts_args => '{at}', fallbacks => '{apps}', routing => '{"priority": "LOW"}', strategy => 'rr');
	SELECT infer.replace_placements('c', '[{"server": "mock"}]', 1000);
	SELECT infer.create_model('gone', 'complete'); SELECT infer.drop_model('gone')});
$seen{'the dump'} = dump_of('postgres');
like($seen{'the dump'}, qr/api_key_file '\Q$key_file\E'/, 'the dump says where the key is');
like($seen{'the dump'}, qr/api_key_env 'INFER_TEST_KEY'/, 'of a variable as well');
like($seen{'the dump'}, qr/^COPY infer\.model_catalog/m, 'the dump has the models');
ask('CREATE DATABASE restored TEMPLATE template0');
$node->command_ok(
	[ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('restored'), '-f',
		"$folder/postgres.sql" ],
	'the dump restores without an error');
is(dump_of('restored'), $seen{'the dump'}, 'what was restored dumps to the same');
is( $node->safe_psql('restored', 'SELECT * FROM infer.models ORDER BY name'),
	ask('SELECT * FROM infer.models ORDER BY name'),
	'the models are the same');
is( $node->safe_psql('restored', 'SELECT * FROM infer.placements ORDER BY model, server'),
	ask('SELECT * FROM infer.placements ORDER BY model, server'),
	'fail_P59: so are their placements');
is( $node->safe_psql('restored', q{SELECT infer.create_model('gone', 'complete'); SELECT infer.drop_model('c'); SELECT infer.create_model('c', 'complete', 'mock');
		SELECT name, set_version > CASE name WHEN 'c' THEN 1000 ELSE 8 END FROM infer.models WHERE name IN ('c', 'gone') ORDER BY name}) =~ s/^\n+//r,
	"c|t\ngone|t", 'fail_P59: and versions grow from where they were, also of a model that was gone by then');
is(attempt("$as_app SELECT infer.embed('m', 'restored') IS NOT NULL", 'restored'),
	't', 'calls work in the restored database: server, model, mapping, key, privileges');
$mock->set("api_key=$key{env}");
is(attempt("$as_app SELECT infer.complete('apps', 'restored') IS NOT NULL", 'restored'),
	't', 'of a role with a key in a variable as well');
is(attempt("$as_app SELECT infer.drop_model('m')", 'restored'),
	'42501', 'owners are as before: not of this model');
is(attempt("$as_app SELECT infer.drop_model('apps')", 'restored'), '', 'but of that one');

# ----------------------------------------------------------------------------------------------
# fault_F79: none of the keys anywhere.

$node->stop;
$seen{'the log'} = slurp_file($node->logfile);
like($seen{'the log'}, qr/statement: .*infer\.embed\('m', 'by file'\)/, 'the log has the statements');
like($seen{'the log'}, qr/DEBUG:/, 'and debug messages');
foreach my $place (sort keys %seen)
{
	my @found = grep { index($seen{$place}, $key{$_}) >= 0 } sort keys %key;
	is("@found", '', "fault_F79: no key in $place");
	cmp_ok(length $seen{$place}, '>', 0, "fault_F79: $place was looked at");
}

done_testing();
