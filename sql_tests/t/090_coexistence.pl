# Other extensions that hook into planner and executor: whatever the order they are loaded in, the
# rows are the same, calls are made many at a time, and what the others report is right.
# pg_stat_statements, pg_stat_kcache, pg_wait_sampling and pg_hint_plan have a planner_hook each.
use strict;
use warnings;
use InferTest;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $mock = InferTest::Mock->new('dim=4', 'reply=echo');
my ($pkglibdir) = run_command([ 'pg_config', '--pkglibdir' ]);
my @packaged = grep { -e "$pkglibdir/$_.so" } qw(pg_stat_kcache pg_wait_sampling pg_hint_plan);

# The same commands in the same order give the same object ids in every cluster.
my $setup = q{
	CREATE TABLE docs (id int PRIMARY KEY, body text, label int);
	INSERT INTO docs SELECT i, 'text ' || i, i % 5 FROM generate_series(1, 100) i;
	CREATE TABLE labels (label int PRIMARY KEY, name text);
	INSERT INTO labels SELECT i, 'text ' || i FROM generate_series(0, 9) i;
	ANALYZE docs, labels;
	CREATE FUNCTION vectors(int) RETURNS bigint LANGUAGE plpgsql AS $$
	DECLARE n bigint;
	BEGIN
		SELECT count(infer.embed('m', body)) INTO n FROM docs WHERE id <= $1;
		RETURN n;
	END $$;
	CREATE FUNCTION answer(text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT infer.complete('c', $1) $$;
};

# What makes calls: each is batched or at least asked concurrently.
my @calling = (
	q{SELECT id, infer.embed('m', body) FROM docs ORDER BY id},
	q{SELECT id FROM docs WHERE infer.complete('c', body) <> 'text 7' ORDER BY id},
	q{SELECT infer.complete('c', 'text ' || label), count(*) FROM docs GROUP BY 1 ORDER BY 1},
	q{SELECT d.id, l.name FROM docs d JOIN labels l ON l.name = infer.complete('c', d.body) ORDER BY 1},
	q{SELECT count(*) FILTER (WHERE infer.complete('c', body) = 'text 3') FROM docs},
	q{SELECT id, (o).value FROM docs, infer.try_complete('c', body) AS o ORDER BY label, id LIMIT 5},
	q{WITH v AS MATERIALIZED (SELECT id, infer.embed('m', body) AS e FROM docs)
		SELECT a.id, b.id FROM v a JOIN v b ON a.e = b.e ORDER BY 1},
	q{UPDATE docs SET body = infer.complete('c', body) RETURNING id, infer.complete('c', body || '!')},
	q{SELECT id, answer(body) FROM docs WHERE label IN (SELECT label FROM labels WHERE name > 'text 2') ORDER BY id},
	q{SELECT vectors(50)},
);

# What makes none.
my @plain = (
	q{SELECT id FROM docs WHERE label = 3 AND body LIKE 'text%'},
	q{SELECT name, count(*) FROM docs JOIN labels USING (label) GROUP BY name HAVING count(*) > 1},
	q{WITH a AS (SELECT max(id) AS m FROM docs) SELECT * FROM docs, a WHERE id = m},
	q{UPDATE docs SET label = label WHERE id = 1},
	q{INSERT INTO labels VALUES (100, 'x') ON CONFLICT (label) DO NOTHING},
	q{DELETE FROM labels WHERE label > 99},
	q{SELECT 1 + 1});

sub new_cluster
{
	my ($name, $preload) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init;
	$node->append_conf('postgresql.conf', "shared_preload_libraries = '$preload'\ncompute_query_id = on\n");
	$node->start;
	InferTest::connect_mock($node, $mock, max_batch_size => 16);
	$node->safe_psql('postgres', $setup);
	return $node;
}

sub restart_with
{
	my ($node, $preload, @conf) = @_;
	$node->append_conf('postgresql.conf', join("\n", "shared_preload_libraries = '$preload'", @conf, ''));
	$node->restart;
	return;
}

# Rows, calls and requests of all that call; what they write is rolled back.
sub run_all
{
	my ($node, %settings) = @_;
	my $set = join('', map { "SET $_ = '$settings{$_}';" } sort keys %settings);
	my (@rows, @calls, @requests);
	foreach my $query (@calling)
	{
		$mock->reset;
		my $rows = $node->safe_psql('postgres', "$set BEGIN; $query; ROLLBACK;");
		push @rows, $rows;
		push @calls, $mock->stat('items');
		push @requests, $mock->stat('requests');
	}
	return { rows => \@rows, calls => \@calls, requests => \@requests };
}

# Query ids as EXPLAIN tells them.
sub query_ids
{
	my ($node, $set, @queries) = @_;
	return [
		map {
			my $plan = $node->safe_psql('postgres', "$set EXPLAIN (VERBOSE, COSTS OFF) $_");
			$plan =~ /Query Identifier: (-?\d+)/ ? $1 : "none: $plan"
		} @queries ];
}

# Plans that auto_explain wrote since the given place in the log.
sub logged_plans
{
	my ($node, $offset) = @_;
	my $log = slurp_file($node->logfile, $offset);
	my @plans;
	while ($log =~ /^[^\t\n][^\n]*  plan:\n((?:\t[^\n]*\n)+)/mg)
	{
		push @plans, $1;
	}
	return @plans;
}

# --- the ids of statements ---

my $without = new_cluster('without', 'pg_stat_statements');
my $node = new_cluster('with', 'pg_stat_statements, pg_inference');
$_->safe_psql('postgres', 'CREATE EXTENSION pg_stat_statements') foreach $without, $node;

my @all = (@calling, @plain);
my $ids = query_ids($without, '', @all);
is(scalar(grep { /^-?\d+$/ && $_ ne '0' } @$ids), scalar(@all), 'every statement has an id without the library');
is_deeply(query_ids($node, '', @all), $ids, 'the same ids with it');
is_deeply(query_ids($node, 'SET pg_inference.enable = off;', @all), $ids, 'and with it turned off');
foreach my $cluster ($without, $node)
{
	$cluster->safe_psql('postgres', 'SELECT pg_stat_statements_reset()');
	$cluster->safe_psql('postgres', $_) foreach @plain;
}
my $statements = q{SELECT queryid, query, calls, rows, plans FROM pg_stat_statements
	WHERE query NOT LIKE '%pg_stat_statements%' ORDER BY query COLLATE "C"};
is($node->safe_psql('postgres', $statements), $without->safe_psql('postgres', $statements),
	'pg_stat_statements: statements without calls are the same with and without the library');
$without->stop;

# --- nesting and planning, counted by pg_stat_statements ---

restart_with($node, 'pg_stat_statements, pg_inference', 'pg_stat_statements.track = all',
	'pg_stat_statements.track_planning = on', 'pg_stat_statements.track_utility = off');
my $nested = q{SELECT queryid, toplevel, calls, rows, plans, query FROM pg_stat_statements
	WHERE query NOT LIKE '%pg_stat_statements%' ORDER BY queryid, toplevel};
my @counted;
foreach my $enable ('on', 'off')
{
	$node->safe_psql('postgres', 'SELECT pg_stat_statements_reset()');
	run_all($node, 'pg_inference.enable' => $enable);
	push @counted, $node->safe_psql('postgres', $nested);
}
is($counted[0], $counted[1], 'pg_stat_statements, all levels and planning: the same with and without InferScan');
my %id;
@id{@calling} = @$ids;
foreach my $query (@calling)
{
	like($counted[0], qr/^\Q$id{$query}\E\|t\|1\|\d+\|1\|/m, "one call, one planning: $query");
}
like($counted[0], qr/^-?\d+\|f\|1\|1\|1\|SELECT count\(infer\.embed/m, 'the query in a function is nested');

# --- whoever is loaded first ---

restart_with($node, 'pg_inference');
my $alone = run_all($node);
my $direct = run_all($node, 'pg_inference.enable' => 'off');
is_deeply($alone->{rows}, $direct->{rows}, 'nothing else loaded: the rows of PostgreSQL alone');
cmp_ok($alone->{requests}[0], '<=', 10, 'a hundred embeddings in few requests');
cmp_ok($direct->{requests}[0], '==', 100, 'which would be a hundred one by one');

my $contrib = 'auto_explain, pg_stat_statements';
my $others = join(', ', 'auto_explain', 'pg_stat_statements', @packaged);
# pg_stat_kcache insists on coming after pg_stat_statements
my $reversed = join(', ', (reverse grep { $_ ne 'pg_stat_kcache' } @packaged), 'pg_stat_statements',
	(grep { $_ eq 'pg_stat_kcache' } @packaged), 'auto_explain');
my $between = join(', ', 'pg_stat_statements', 'pg_inference', @packaged);
my @explained = ('auto_explain.log_min_duration = 0', 'auto_explain.log_analyze = on', 'auto_explain.log_verbose = on',
	'auto_explain.log_buffers = on', 'auto_explain.log_nested_statements = on', 'auto_explain.log_settings = on',
	'auto_explain.log_triggers = on', 'auto_explain.log_format = json');

foreach my $preload ("$contrib, pg_inference", "pg_inference, $contrib",
	@packaged ? ("$others, pg_inference", "pg_inference, $others", "$reversed, pg_inference", "pg_inference, $reversed",
		$between) : ())
{
	restart_with($node, $preload, @explained);
	my $offset = -s $node->logfile;
	my $run = run_all($node);
	is_deeply($run->{rows}, $alone->{rows}, "$preload: the same rows");
	is_deeply($run->{calls}, $alone->{calls}, "$preload: as many calls");
	cmp_ok($run->{requests}[0], '<=', 10, "$preload: in batches");
	is_deeply(query_ids($node, '', @all), $ids, "$preload: the same query ids");
	next unless $preload =~ /auto_explain/;
	my @plans = logged_plans($node, $offset);
	my @broken = grep { !eval { decode_json($_); 1 } } @plans;
	is_deeply(\@broken, [], "$preload: auto_explain's plans are JSON");
	my @ours = grep { /"Custom Plan Provider": "InferScan"/ } @plans;
	cmp_ok(scalar(@ours), '>=', scalar(@calling), "$preload: and show InferScan");
	is(scalar(grep { /count\(infer\.embed/ && /"Actual Rows": 50/ } @ours), 1,
		"$preload: with its figures, in nested statements, too");
}

# auto_explain's other formats, a plan that ends early, a query that fails
restart_with($node, "pg_inference, $contrib", @explained);
foreach my $format ('text', 'xml', 'yaml')
{
	my $offset = -s $node->logfile;
	is($node->safe_psql('postgres', "SET auto_explain.log_format = $format;
		SELECT infer.complete('c', body) FROM docs WHERE infer.complete('c', body) <> 'a' ORDER BY id LIMIT 1"),
		'text 1', "auto_explain, $format");
	like((logged_plans($node, $offset))[0] // '', qr/InferScan/, "auto_explain, $format: InferScan");
}
my ($status, $out, $err) = $node->psql('postgres', q{SELECT infer.complete('c', 'a [[mock:400]]') FROM docs});
like($err, qr/ERROR/, 'a query that fails under auto_explain');
is($node->safe_psql('postgres', q{BEGIN; DECLARE c CURSOR FOR SELECT infer.complete('c', body) FROM docs ORDER BY id;
	FETCH 2 FROM c; CLOSE c; COMMIT}), "text 1\ntext 2", 'a cursor that is closed early');

# --- what the others measure ---

SKIP:
{
	skip 'pg_stat_kcache is not installed', 1 unless grep { $_ eq 'pg_stat_kcache' } @packaged;
	restart_with($node, 'pg_stat_statements, pg_stat_kcache, pg_inference', 'pg_stat_kcache.track_planning = on');
	$node->safe_psql('postgres', 'CREATE EXTENSION pg_stat_kcache; SELECT pg_stat_kcache_reset()');
	run_all($node);
	my $known = join(',', @$ids[ 0 .. $#calling ]);
	is($node->safe_psql('postgres', "SELECT count(DISTINCT queryid) FROM pg_stat_kcache() WHERE top AND queryid IN ($known)"),
		scalar(@calling), 'pg_stat_kcache knows all statements by their ids');
}

SKIP:
{
	skip 'pg_wait_sampling is not installed', 1 unless grep { $_ eq 'pg_wait_sampling' } @packaged;
	restart_with($node, 'pg_wait_sampling, pg_inference');
	$node->safe_psql('postgres', 'CREATE EXTENSION pg_wait_sampling');
	$mock->set('base_ms=100');
	ok( InferTest::wait_until(
			20,
			sub {
				$node->safe_psql('postgres', $calling[0]);
				return $node->safe_psql('postgres', "SELECT count(*) > 0 FROM pg_wait_sampling_profile
					WHERE queryid = $ids->[0] AND event_type = 'Extension'") eq 't';
			}),
		'pg_wait_sampling sees the statement wait, under its id');
	$mock->set('base_ms=0');
}

# Debian has it from 17 on
foreach my $preload ((grep { $_ eq 'pg_hint_plan' } @packaged) ? ('pg_hint_plan, pg_inference', 'pg_inference, pg_hint_plan') : ())
{
	restart_with($node, $preload);
	like($node->safe_psql('postgres', q{/*+ NestLoop(d l) SeqScan(l) */ EXPLAIN (COSTS OFF) SELECT l.name,
		infer.complete('c', d.body) FROM docs d JOIN labels l USING (label)}),
		qr/InferScan.*Nested Loop.*Seq Scan on labels/s, "$preload: hints are followed");
}

$node->stop;
done_testing();
