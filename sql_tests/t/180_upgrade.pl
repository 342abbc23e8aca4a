# fault_F81: what was granted stays granted: through ALTER EXTENSION UPDATE, and through dump and
# restore. The next version is made here, in a copy of the installation.
use strict;
use warnings;
use InferTest;
use File::Basename qw(basename dirname);
use File::Path qw(make_path);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $folder = PostgreSQL::Test::Utils::tempdir_short;
my %dir = map { chomp(my $path = `pg_config --$_`); $_ => $path } qw(bindir sharedir pkglibdir libdir);

# PostgreSQL finds its files from where its program is: programs and scripts are copied, the rest is
# linked.
sub install_copy
{
	make_path("$folder$dir{$_}") foreach qw(bindir sharedir);
	make_path(dirname("$folder$dir{$_}")) foreach qw(pkglibdir libdir);
	system("cp $dir{bindir}/* $folder$dir{bindir}/") == 0 or die 'cannot copy the programs';
	foreach my $entry (glob "$dir{sharedir}/*")
	{
		my $to = "$folder$dir{sharedir}/" . basename($entry);
		basename($entry) eq 'extension' ? system('cp', '-r', $entry, $to) : symlink $entry, $to;
	}
	foreach my $libraries (grep { !-e "$folder$_" } @dir{qw(pkglibdir libdir)})
	{
		symlink $libraries, "$folder$libraries" or die "cannot link $libraries: $!";
	}
	return dirname("$folder$dir{bindir}");
}
my $install_path = install_copy();

my ($script) = glob "$folder$dir{sharedir}/extension/pg_inference--*.sql";
my ($version) = $script =~ /--([^-]*)\.sql$/;
my $text = slurp_file($script);
my ($complete) = $text =~ /^(CREATE FUNCTION infer\.complete\(.*?;\n)/ms or die 'no infer.complete';
my ($view) = $text =~ /^(CREATE VIEW infer\.models .*?;\n)/ms or die 'no infer.models';
s/^CREATE /CREATE OR REPLACE / foreach $complete, $view;
append_to_file("$folder$dir{sharedir}/extension/pg_inference--$version--next.sql", join("\n",
	$complete, $view, q{CREATE FUNCTION infer.of_the_next() RETURNS text AS 'MODULE_PATHNAME', 'infer_version' LANGUAGE C;}));

my $node = PostgreSQL::Test::Cluster->new('upgrade', install_path => $install_path);
$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_inference'\n");
$node->start;
my $mock = InferTest::Mock->new;
InferTest::connect_mock($node, $mock);
$node->safe_psql('postgres', q{
	CREATE ROLE granted; CREATE ROLE other; CREATE ROLE owner;
	REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA infer FROM PUBLIC;
	REVOKE ALL ON ALL TABLES IN SCHEMA infer FROM PUBLIC;
	GRANT EXECUTE ON FUNCTION infer.complete, infer.create_model, infer.stat_reset TO granted, owner;
	GRANT SELECT ON infer.models, infer.stat_admission TO granted;
	GRANT USAGE ON FOREIGN SERVER mock TO granted, other, owner;
	GRANT USAGE ON FOREIGN DATA WRAPPER pg_inference TO owner;
	SET ROLE owner; SELECT infer.create_model('own', 'complete', 'mock')});

# What each role may do, as it finds out.
sub rights
{
	my ($database) = @_;
	my @found;
	foreach my $role (qw(granted other owner))
	{
		foreach my $sql (
			q{SELECT infer.complete('c', 'x')}, q{SELECT infer.stat_reset()}, q{TABLE infer.models},
			q{SELECT infer.embed('m', 'x')}, q{TABLE infer.stat_admission}, q{TABLE infer.stat_models},
			q{CREATE SERVER x FOREIGN DATA WRAPPER pg_inference; DROP SERVER x},
			q{SELECT infer.create_model('new', 'complete', 'mock')})
		{
			my (undef, undef, $err) = $node->psql($database, "\\set VERBOSITY verbose\nBEGIN; SET ROLE $role; $sql");
			push @found, "$role: $sql: " . ($err =~ /ERROR:  (\w{5})/ ? $1 : 'yes');
		}
	}
	return join("\n", @found, $node->safe_psql($database, 'SELECT name, owner FROM infer.model_catalog ORDER BY name'));
}

my $before = rights('postgres');
is(scalar(() = $before =~ /: yes$/mg), 8, 'some may, some may not') or diag($before);
unlike($before, qr/: (?!yes|42501)\w+$/m, '... and what is refused is refused for lack of privileges');

command_ok([ 'pg_dump', '-f', "$folder/dump.sql", '-d', $node->connstr('postgres') ], 'the database is dumped');
$node->safe_psql('postgres', 'CREATE DATABASE restored TEMPLATE template0');
command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('restored'), '-f', "$folder/dump.sql" ], '... and restored');
is(rights('restored'), $before, 'fault_F81: grants survive dump and restore');

foreach my $database (qw(postgres restored))
{
	$node->safe_psql($database, q{ALTER EXTENSION pg_inference UPDATE TO 'next'});
	is($node->safe_psql($database, q{SELECT extversion || (infer.of_the_next() <> '') FROM pg_extension WHERE extname = 'pg_inference'}),
		'nexttrue', "$database is updated");
	is(rights($database), $before, "fault_F81: grants survive ALTER EXTENSION UPDATE ($database)");
}
$node->stop;
done_testing();
