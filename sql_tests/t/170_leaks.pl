# What nobody should find: keys anywhere outside their files, and prompts that come from tables in
# logs, statistics, plans and errors, with everything logged that PostgreSQL can log, from servers
# that repeat whatever they are sent.
use strict;
use warnings;
use InferTest;
use InferProc;
use InferTrap;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $folder = PostgreSQL::Test::Utils::tempdir;
my %key = map { $_ => "sk-$_-" . join('', map { ('a' .. 'z')[rand 26] } 1 .. 16) } qw(app public owner rotated);
my $prompt = 'Patient Maria Kowalska, born 1961, has gone into cardiology';
my $short = 'Kowal 61';

sub write_key
{
	my ($name, $key) = @_;
	open(my $out, '>', "$folder/$name.key") or die $!;
	print $out "$key\n";
	close $out;
	return "$folder/$name.key";
}

# ----------------------------------------------------------------------------------------------
# A server that repeats what it was sent, in as many ways as there are; "model" says which.

sub reply
{
	my ($status, $body, @lines) = @_;
	return join("\r\n", "HTTP/1.1 $status", @lines, 'Content-Length: ' . length $body, '', $body);
}

sub parrot
{
	my ($head, $body) = @_;
	my $request = decode_json($body);
	my $text = $request->{input} // $request->{messages}[-1]{content};
	my ($key) = $head =~ /^authorization: *(.*?)\r/im;
	$key //= 'none';
	my $said = encode_json(["your key $key, your text " . (ref $text ? join(' and ', @$text) : $text)]);
	($said) = $said =~ /^\["(.*)"\]$/s;
	my $way = $request->{model};
	return reply('200 OK', qq({"choices":[{"message":{"content":"$said"}}],"data":[{"index":0,"embedding":[1]}]})) if $way eq 'good';
	return reply('400 No', qq({"error":{"message":"bad: $said"}})) if $way eq 'message';
	return reply('400 No', qq({"error":{"message":"$said", "type":"$said","code":"$said"}})) if $way eq 'type';
	return reply('422 No', qq({"detail":[{"msg":"$said","input":"$said"}]})) if $way eq 'detail';
	return reply('401 No', qq({"error":"$said"})) if $way eq 'unauthorized';
	return reply('500 No', $said) if $way eq 'plain';
	return reply('500 No', $body) if $way eq 'request';
	return reply('503 Busy', $said, 'Retry-After: 86400') if $way eq 'busy';
	return reply("404 $said", '') if $way eq 'status_line';
	return reply('307 There', '', "Location: http://localhost/$said") if $way eq 'redirect';
	return reply('200 OK', $said, "Content-Type: $said", "Server: $said") if $way eq 'malformed';
	return reply('200 OK', qq({"choices":"$said","data":"$said"})) if $way eq 'shape';
	return reply('200 OK', qq({"$said":{"$said":"$said"}})) if $way eq 'keys';
	return reply('200 OK', qq({"choices":[{"message":{"content":null,"refusal":"$said"},"finish_reason":"stop"}]})) if $way eq 'refusal';
	return reply('200 OK', qq({"choices":[{"message":{"content":"$said"},"finish_reason":"content_filter"}]})) if $way eq 'filtered';
	return reply('200 OK', qq({"choices":[{"message":{"content":"$said\\u0000"},"finish_reason":"stop"}]})) if $way eq 'nul';
	return [ "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n$said" ] if $way eq 'cut';
	return [ "$said\r\n\r\n" ];    # no HTTP at all
}
my @ways = qw(good message type detail unauthorized plain request busy status_line redirect malformed shape keys
  refusal filtered nul cut rubbish);

my $parrot = InferTrap->new(answer => \&parrot);
my $parrot_url = 'http://127.0.0.1:' . $parrot->port . '/v1';

# ----------------------------------------------------------------------------------------------
# Everything is logged.

my ($sharedir) = run_command([ 'pg_config', '--sharedir' ]);
my ($libdir) = run_command([ 'pg_config', '--pkglibdir' ]);
my @preload = ('pg_inference');
push @preload, 'pg_stat_statements' if -e "$sharedir/extension/pg_stat_statements.control";
push @preload, grep { -e "$libdir/$_.so" } qw(auto_explain pgaudit);
note("preloaded: @preload");
my %has = map { $_ => 1 } @preload;
my $node = PostgreSQL::Test::Cluster->new('leaks');
$node->init;
$node->append_conf('postgresql.conf', join("\n",
	"shared_preload_libraries = '" . join(',', @preload) . "'",
	'pg_inference.failure_cooldown = 1ms',
	'log_statement = all', 'log_min_duration_statement = 0', 'log_min_error_statement = debug5',
	'log_error_verbosity = verbose', 'log_parameter_max_length_on_error = -1', 'log_duration = on',
	'debug_print_parse = on', 'debug_print_plan = on', 'debug_print_rewritten = on',
	'log_executor_stats = on', 'log_temp_files = 0', 'log_lock_waits = on', 'track_activity_query_size = 16384',
	($has{auto_explain} ? (map { "auto_explain.$_" } 'log_min_duration = 0', 'log_analyze = on', 'log_verbose = on',
		'log_nested_statements = on', 'log_settings = on', 'log_triggers = on', 'log_buffers = on') : ()),
	($has{pgaudit} ? ('pgaudit.log = all', 'pgaudit.log_parameter = on') : ()), ''));
{
	# for what goes over the environment: the key of a server that the documentation calls by
	# api_key_env, and the name of another, which must not be found in a process
	local $ENV{LEAKS_KEY} = 'sk-in-the-environment-1';
	$node->start;
}
# Only now: with debug3 and more PostgreSQL logs its whole environment at its start.
$node->append_conf('postgresql.conf', 'log_min_messages = debug5');
$node->reload;

my %seen;

sub run
{
	my ($place, $sql, %options) = @_;
	my (undef, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql", %options);
	$seen{$place} .= "$out\n$err\n";
	return ($out, $err);
}

sub ask { my ($out, $err) = run('what clients are told', join("\n", @_)); die $err if $err =~ /ERROR/; return $out; }

# ----------------------------------------------------------------------------------------------
# All documented ways to set a key up, with what is seen of each.

my $far = write_key(app => $key{app});
my ($public, $owner) = (write_key(public => $key{public}), write_key(owner => $key{owner}));
ask('CREATE EXTENSION pg_inference;', ($has{pg_stat_statements} ? 'CREATE EXTENSION pg_stat_statements;' : ()), qq{
	CREATE SERVER parrot FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$parrot_url', max_concurrency '64', trust 'direct', request_timeout '10s');
	CREATE ROLE app LOGIN; CREATE ROLE guest LOGIN; CREATE ROLE reader LOGIN IN ROLE pg_read_server_files, pg_monitor;
	CREATE USER MAPPING FOR app SERVER parrot OPTIONS (api_key_file '$folder/app.key');
	CREATE USER MAPPING FOR CURRENT_USER SERVER parrot OPTIONS (api_key_env 'LEAKS_KEY');
	ALTER USER MAPPING FOR CURRENT_USER SERVER parrot OPTIONS (DROP api_key_env, ADD api_key_file '$owner');
	GRANT USAGE ON FOREIGN SERVER parrot TO app, reader;
	SET ROLE reader; CREATE USER MAPPING FOR reader SERVER parrot OPTIONS (api_key_file '$public'); RESET ROLE;
	CREATE USER MAPPING FOR PUBLIC SERVER parrot OPTIONS (api_key_file '$public');
	SELECT infer.create_model('$_', task => 'complete', server => 'parrot', remote_model => '$_', input_price => 1, output_price => 2);
	} . '') foreach $ways[0];
ask("SELECT infer.create_model('$_', task => 'complete', server => 'parrot')") foreach @ways[1 .. $#ways];
ask(qq{CREATE TABLE notes (id int PRIMARY KEY, body text); GRANT SELECT ON notes TO app;});
# The texts themselves come in without being part of a statement.
append_to_file("$folder/notes", "1\t$prompt\n2\t$short\n3\t$prompt, twice: $prompt\n");
ask(qq{COPY notes FROM '$folder/notes'});
ask(q{CREATE FUNCTION asks(way text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE r record; BEGIN FOR r IN SELECT * FROM notes LOOP PERFORM infer.complete(way, r.body); END LOOP; RETURN 'done'; END $$;
	CREATE FUNCTION asks_sql(body text, way text) RETURNS text LANGUAGE sql AS $$ SELECT infer.complete(way, body) $$});

# ----------------------------------------------------------------------------------------------
# fail_P68: whatever a server repeats, neither key nor prompt shows.

my $called = '';
foreach my $way (@ways)
{
	foreach my $enable (qw(on off))
	{
		my $set = "SET ROLE app; SET pg_inference.enable = $enable; SET pg_inference.max_attempts = 2;";
		(undef, my $err) = run('errors', "$set SELECT count(infer.complete('$way', body)) FROM notes");
		$called .= "$way " if $err =~ /ERROR:  R/;
		run('errors', "$set SELECT " . ($enable eq 'on' ? "asks('$way')" : "asks_sql(body, '$way') FROM notes"))
		  unless $way eq 'good';
		run('errors', "$set SELECT infer.embed('parrot/$way', body) FROM notes") unless $way eq 'good';
		run('outcomes', "$set SELECT (o).error, (o).reason, (o).execution, (o).http_status, (o).usage
			FROM (SELECT infer.try_complete('$way', body) AS o FROM notes OFFSET 0) s;
			SELECT e::text FROM infer.statement_errors() e");
		run('plans', "$set EXPLAIN (ANALYZE, VERBOSE, BUFFERS, SETTINGS, FORMAT $_)
			SELECT infer.try_complete('$way', body), infer.complete('good', body) FROM notes WHERE infer.complete('good', body) <> 'x'")
		  foreach qw(text json);
	}
}
is($called, join('', map { "$_ " x 2 } @ways[1 .. $#ways]), 'each way fails');
like($parrot->seen, qr/\Q$prompt\E/, 'the prompts were sent');
like($parrot->seen, qr/bearer \Q$key{app}\E/i, 'and the key');
like($seen{errors}, qr/\(input\)/, 'what servers repeat of an input is left out');
like($seen{errors}, qr/bad: your key .*, your text \(input\)/, '... and only that');

# A key that is rotated: neither the old nor the new.
write_key(app => $key{rotated});
run('errors', "SET ROLE app; SELECT infer.complete('message', body || ' again') FROM notes");
like($parrot->seen, qr/bearer \Q$key{rotated}\E/i, 'the rotated key was sent');

# What is looked at while a call is under way.
my $slow = InferTrap->new(answer => sub { sleep 600; return '' });
ask(q{CREATE SERVER slow FOREIGN DATA WRAPPER pg_inference OPTIONS (url 'http://127.0.0.1:} . $slow->port . qq{/v1');
	CREATE USER MAPPING FOR PUBLIC SERVER slow OPTIONS (api_key_file '$public')});
my $session = InferProc->start($node, 'slow', q{SELECT infer.complete('slow/x', body) FROM notes;});
my $pid = $session->backend;
ok(InferTest::wait_until(60, sub { $slow->seen =~ /\Q$prompt\E/ }), 'a call is under way');
run('activity', 'SELECT a::text FROM pg_stat_activity a');
run('progress', 'SELECT p::text FROM infer.stat_progress p');
foreach my $file (qw(cmdline environ))
{
	$seen{"/proc/PID/$file"} = slurp_file("/proc/$pid/$file");
	cmp_ok(length $seen{"/proc/PID/$file"}, '>', 0, "/proc/PID/$file was looked at");
}
ask("SELECT pg_cancel_backend($pid)");
$seen{errors} .= join('', $session->finish);

# Statistics, settings, catalogs. (The statement texts in them have neither.)
run('statistics', join('', map { "SELECT x::text FROM $_ x;" } 'pg_stat_database', 'pg_stat_user_tables', 'pg_stat_user_functions',
		($has{pg_stat_statements} ? 'pg_stat_statements' : ()), 'pg_prepared_statements', 'pg_backend_memory_contexts'));
my @views = split /\n/, ask(q{SELECT d.objid::regclass FROM pg_depend d JOIN pg_class c ON c.oid = d.objid
	WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pg_inference') AND d.classid = 'pg_class'::regclass
	AND d.deptype = 'e' AND c.relkind IN ('r', 'v')});
cmp_ok(scalar @views, '>', 3, 'the views of the extension were found');
run('our views', join('', map { "SELECT x::text FROM $_ x;" } @views));
run('settings', 'SELECT s::text FROM pg_settings s; SELECT f::text FROM pg_file_settings f');
run('catalogs', join('', map { "SELECT x::text FROM $_ x;" }
		qw(pg_user_mappings pg_user_mapping pg_foreign_server pg_foreign_data_wrapper pg_proc pg_description pg_init_privs)));

# ----------------------------------------------------------------------------------------------
# fault_F80: what an ordinary role gets to see.

my (undef, $refused) = run('what a guest sees', q{SET ROLE guest;
	SELECT umoptions IS NOT NULL FROM pg_user_mappings WHERE umoptions IS NOT NULL;
	SELECT * FROM pg_user_mapping; SELECT pg_read_file('} . $owner . q{'); SELECT infer.complete('good', 'x');
	SELECT * FROM infer.stat_admission; SELECT * FROM infer.stat_models; SELECT infer.stat_reset();
	INSERT INTO infer.model_catalog SELECT * FROM infer.model_catalog;
	UPDATE infer.placement_catalog SET server = 'mine'; SELECT infer.alter_model('good', 'mine'); SELECT infer.drop_model('good')}, on_error_stop => 0);
is(scalar(() = $refused =~ /ERROR:  42501/g), 10, 'fault_F80: an ordinary role is refused ten times') or diag($refused);
is(ask('SET ROLE guest; SELECT count(*) FROM infer.statement_errors()'), 0, 'fault_F80: and sees no errors of others');

# ----------------------------------------------------------------------------------------------
# fault_F82: dumps, made by a superuser and by an owner who is none, have no key.

ask(q{CREATE ROLE owner LOGIN CREATEDB IN ROLE pg_read_server_files; CREATE DATABASE owned OWNER owner TEMPLATE template0});
$node->safe_psql('owned', q{CREATE EXTENSION pg_inference; GRANT USAGE ON FOREIGN DATA WRAPPER pg_inference TO owner});
my $as_owner = $node->connstr('owned') . ' user=owner';
$node->safe_psql('owned', qq{CREATE SERVER s FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$parrot_url');
	CREATE USER MAPPING FOR owner SERVER s OPTIONS (api_key_file '$owner');
	CREATE USER MAPPING FOR PUBLIC SERVER s OPTIONS (api_key_file '$public');
	SELECT infer.create_model('good', task => 'complete', server => 's');
	CREATE TABLE t (a text); CREATE VIEW v AS SELECT infer.complete('good', a) AS b FROM t; INSERT INTO t VALUES ('x')},
	connstr => $as_owner);
# (after a COPY that is refused, not every psql knows that its lines are no SQL)
command_ok([ 'pg_dump', '--inserts', '-f', "$folder/by_owner.sql", '-d', $as_owner ], 'fault_F82: an owner who is no superuser can dump');
command_ok([ 'pg_dumpall', '-f', "$folder/all.sql", '-d', $node->connstr('postgres') ], 'fault_F82: a superuser can dump everything');
$seen{"the dump by $_"} = slurp_file("$folder/$_.sql") foreach qw(by_owner all);
like($seen{'the dump by by_owner'}, qr/^INSERT INTO infer\.model_catalog VALUES \('good'/m, 'fault_F82: the models are in it');

# Restored by that owner into a database of his, where a superuser has made the extension.
$node->safe_psql('postgres', 'CREATE DATABASE again OWNER owner TEMPLATE template0');
$node->safe_psql('again', q{CREATE EXTENSION pg_inference; GRANT USAGE ON FOREIGN DATA WRAPPER pg_inference TO owner});
my (undef, $trouble) = run_command([ 'psql', '-Xq', '-v', 'VERBOSITY=verbose', '-f', "$folder/by_owner.sql", '-d',
		$node->connstr('again') . ' user=owner' ]);
is(join("\n", $trouble =~ /ERROR:  (.*)/g), join("\n", '42P06: schema "infer" already exists', '42501: must be owner of extension pg_inference', '42501: permission denied for table model_catalog',
		'42501: permission denied for table placement_catalog', '42501: permission denied for sequence set_versions'),
	'fault_F82: an owner restores all but what takes a superuser');
$node->safe_psql('again', q{SELECT infer.create_model('good', task => 'complete', server => 's')}, connstr => $node->connstr('again') . ' user=owner');
is($node->safe_psql('again', 'SELECT count(b) > 0 FROM v', connstr => $node->connstr('again') . ' user=owner'),
	't', 'fault_F82: what its owner restored works, key and all');

# ----------------------------------------------------------------------------------------------
# None of it anywhere. fault_F79: no key; fail_P68: no prompt.

$node->stop;
$seen{'the log'} = slurp_file($node->logfile);
like($seen{'the log'}, qr/DEBUG:/, 'the log has debug messages');
like($seen{'the log'}, qr/Custom Scan \(InferScan\)/, '... plans') if $has{auto_explain};
like($seen{'the log'}, qr/statement: .*api_key_file/, '... and statements');
my %secret = (%key, 'of the environment' => 'sk-in-the-environment-1');
foreach my $place (sort keys %seen)
{
	my @found = grep { index($seen{$place}, $secret{$_}) >= 0 && !($place =~ /environ$/ && /environment/) } sort keys %secret;
	is("@found", '', "fault_F79, fail_P68: no key in $place");
	# "good" answers hold the text, and are asked for
	my ($found) = $place =~ /^\/proc|dump by all/ ? () : $seen{$place} =~ /((?:Kowalska|Kowal|cardiology).*)/;
	is($found, undef, "fail_P68: no prompt in $place");
}

# Nor did keys get into any file of the server. (The table and its log have the prompts.)
my @files;
sub files_of { my ($at) = @_; foreach my $file (glob "$at/*") { -d $file && !-l $file ? files_of($file) : push @files, $file; } return; }
files_of($node->data_dir);
cmp_ok(scalar @files, '>', 500, 'the files of the server were found');
my @with_key = grep { my $text = -f $_ && -r $_ ? slurp_file($_) : ''; grep { index($text, $_) >= 0 } values %key } @files;
is("@with_key", '', 'fail_P68: no key in a file of the server');
is(join(' ', grep { m{/core[^/]*$} } @files), '', 'fail_P68: and no process left its memory behind');

done_testing();
