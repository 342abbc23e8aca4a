# A process that exits without having aborted its transaction gives its permits back nevertheless.
#
# In the normal way the abort gives them back, before the exit callback of shmem/admission looks:
# t/050_permits.pl. Here another extension makes the abort fail.
use strict;
use warnings;
use InferTest;
use InferProc;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = InferProc::build_bad_abort(PostgreSQL::Test::Utils::tempdir);
my $mock = InferTest::Mock->new('fault_hang=100', 'queue=1000');
my $node = InferTest::new_node('exit', 'pg_inference.streaming_mode = per_row',
	'pg_inference.request_timeout = 10min'); # what is lost is not taken for lost before
InferTest::connect_mock($node, $mock, max_concurrency => 4);

sub ask { return $node->safe_psql('postgres', $_[0]); }
sub admission { return ask("SELECT $_[0] FROM infer.stat_admission"); }

my $holder = InferProc->start($node, 'holder', qq{LOAD '$library';
	SELECT infer.complete('c', 'held ' || i) FROM generate_series(1, 4) i;});
ok(InferTest::wait_until(60, sub { $mock->stat('in_flight') == 4 }), 'all permits are out');
my $waiter = InferProc->start($node, 'waiter', q{SELECT 'rows', count(infer.complete('c', 'waits'));});
ok(InferTest::wait_until(60, sub { admission('waiting') == 1 }), 'another process waits for one');
$mock->set('fault_hang=0');
is(admission(q{in_flight || ' ' || waiting}), '4 1', 'in vain');
ask('SELECT pg_terminate_backend(' . $holder->backend . ', 60000)');
$holder->finish;
ok(InferTest::wait_until(30, sub { admission(q{in_flight || ' ' || waiting}) eq '0 0' }),
	'the end of the process gives them back')
  or ask(q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'waiter'});
my ($out, $err) = $waiter->finish;
is($out, "rows|1\n", 'the waiting one has got one') or diag($err);
is(admission('ignored'), 4, 'four came back unheard');

my $log = slurp_file($node->logfile);
like($log, qr/FATAL:  this transaction cannot be aborted/, 'the abort had failed');
unlike($log, qr/PANIC|terminated by signal|TRAP/, 'and nothing else');
is(($node->psql('postgres', q{SET statement_timeout = '60s'; SELECT infer.complete('c', 'afterwards') <> ''}))[1], 't', 'the server runs');

$node->stop;
done_testing();
