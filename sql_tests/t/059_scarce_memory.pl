# Memory that is not there for one piece or another, wherever that is: in the gateway, and in calls of a
# model on two servers, with copies, weights and references. Nothing crashes, nothing stays taken, and
# what was asked can be asked again.
use strict;
use warnings;
use InferTest;
use InferProc;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $folder = PostgreSQL::Test::Utils::tempdir;
my $file = "$folder/no_memory";
my %mock = map { $_ => InferTest::Mock->new('base_ms=2', 'jitter=1', 'reply=echo', 'incarnation=one') } qw(s1 s2);
my $node;
{
	local $ENV{LD_PRELOAD} = InferProc::build_preload($folder, 'no_memory');
	local $ENV{NO_MEMORY_FILE} = $file;
	$node = InferTest::new_node('scarce', 'pg_inference.gateway = on', "pg_inference.probe_interval = '50ms'",
		'pg_inference.hedge_delay = 0', 'autovacuum = off');
}
sub ask { return $node->safe_psql('postgres', $_[0]); }

ask(join('', 'CREATE EXTENSION pg_inference;', map { "CREATE SERVER $_ FOREIGN DATA WRAPPER pg_inference
	OPTIONS (url '@{[ $mock{$_}->url ]}/v1', node 'n', incarnation 'header:X-Incarnation');" } sort keys %mock));
ask(q{SELECT infer.create_model('all', 'complete', 's1', 'm'); SELECT infer.add_placement('all', 's2', 'm');
	SELECT count(infer.complete('all', 'x' || i)) FROM generate_series(1, 40) AS i});
my $out = q{SELECT (SELECT sum(in_flight) + sum(waiting) FROM infer.stat_admission), (SELECT sum(in_flight) + sum(outstanding) FROM infer.stat_servers),
	(SELECT sum(in_flight) + sum(duration_weight) FROM infer.stat_nodes), (SELECT count(*) FROM infer.stat_queue)};

# ----------------------------------------------------------------------------------------------
# The gateway: it goes on, or another one comes.

sub gateway { return ask(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'pg_inference gateway'}); }
my $struck = 0;
foreach my $n (map { 3 * $_ } 1 .. 12)
{
	my $pid = gateway() || next;
	append_to_file("$file.new", "$pid $n\n");
	rename "$file.new", $file;
	InferTest::wait_until(2, sub { -e "$file.$pid" });
	unlink $file;
	$struck += unlink "$file.$pid";
}
cmp_ok($struck, '>', 3, 'gateway: there was no memory');
ok(InferTest::wait_until(30, sub { gateway() }), 'gateway: it is there');
my %probes = map { $_ => $mock{$_}->stat('probes') } keys %mock;
ok(InferTest::wait_until(30, sub { !grep { $mock{$_}->stat('probes') <= $probes{$_} + 2 } keys %mock }), 'gateway: and probes');
is(ask(q{SELECT count(*) FROM infer.stat_servers WHERE state = 'up'}), 2, 'gateway: it knows that all is well');

# ----------------------------------------------------------------------------------------------
# Calls: each piece of memory that a statement asks for is missing once, in a new session, or in one
# that has called before.

my $options = '{"hedge": true, "duration": "LONG", "retry": "ambiguous"}';
my $calls = qq{SELECT count(infer.complete('all', '%s ' || i, '{}', '$options')) FROM generate_series(1, 3) AS i};
my %statements = (
	calls => $calls,
	outcome => q{SELECT (infer.try_complete('all', '%s', '{}', '{"hedge": true}')).value IS NOT NULL},
	reference => q{SELECT infer.complete(infer.ref('all'), '%s')},
	route => q{SELECT count(*), '%s' FROM infer.explain_route('all')},
	drain => q{SELECT infer.drain('s1', '0'), infer.undrain('s1'), '%s'},
	views => q{SELECT (SELECT count(*) FROM infer.stat_servers), (SELECT count(*) FROM infer.stat_nodes), (SELECT count(*) FROM infer.stat_queue), '%s'});
foreach my $name (sort keys %statements)
{
	my %states;
	foreach my $warm (0, 1)
	{
		my $sql = $statements{$name} =~ s/'/''/gr;
		my $most = $warm ? 40 : 1;
		my $script = sub {
			my ($first) = @_;
			return qq{DO \$\$
			DECLARE state text; found int := 0;
			BEGIN
				FOR n IN $first .. $first + $most - 1 LOOP
					EXECUTE format('COPY (SELECT %s || '' '' || %s) TO ''$file''', pg_backend_pid(), n);
					BEGIN
						EXECUTE format('$sql', 'text $warm ' || n);
						state := 'fine';
					EXCEPTION WHEN OTHERS THEN
						state := SQLSTATE || ' ' || SQLERRM;
					END;
					COPY (SELECT 0) TO '$file';
					RAISE NOTICE 'state: %', state;
					IF infer.retained_bytes() <> 0 THEN
						RAISE NOTICE 'retained: % bytes', infer.retained_bytes();
					END IF;
				END LOOP;
			END \$\$;\n};
		};
		foreach my $first ($warm ? 1 : $ENV{PG_INFERENCE_LONG} ? 1 .. 200 : map { 3 * $_ } 1 .. 25)
		{
			my ($o, $err) = InferProc->start($node, "$name $warm", "SET statement_timeout = '60s';\n" . $script->($first))->finish;
			unlink $file;
			$states{$1}++ while $err =~ /state: (.*)/g;
			$states{"ERROR $1"}++ while $err =~ /(?:ERROR|FATAL):  (.*)/g;
			$states{$1}++ while $err =~ /(retained: .*|server closed the connection.*)/g;
		}
	}
	# a head that has no room in memory looks to curl like one that is too long: RMMAL
	my @odd = grep { !/^(?:ERROR )?53200|^R[NMX]INT|^RMMAL|^fine$/ } sort keys %states;
	is("@odd", '', "$name: what is said is that there was no memory");
	cmp_ok(scalar(grep { !/^fine$/ } keys %states), '>', 0, "$name: ... for there was none");
	is(ask($out), '0|0|0|0', "$name: nothing stays taken");
}
is(ask(sprintf $calls, 'once more'), 3, 'what was asked can be asked again');
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'nothing crashed');
done_testing();
