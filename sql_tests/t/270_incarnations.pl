# Which run of a server answers: learned by probes and by calls, and what a change of it does.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use InferTest;
use InferProc;
use List::Util qw(sum0);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = InferTest::new_node('main', 'pg_inference.gateway = on', "pg_inference.probe_interval = '200ms'");
my %mocks;
sub ask { return $node->safe_psql('postgres', join('', @_)); }

# A server of its own mock; model NAME embeds, NAME_text completes. Called once, so that the gateway knows it.
sub server
{
	my ($name, $option, @settings) = @_;
	my $mock = $mocks{$name} = InferTest::Mock->new('dim=4', @settings);
	my $url = $mock->url;
	my $options = defined $option ? ", incarnation '$option'" : '';
	ask(qq{CREATE SERVER "$name" FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$url/v1'$options);
		SELECT infer.create_model('$name', task => 'embed', server => '$name', remote_model => 'mock');
		SELECT infer.create_model('${name}_text', task => 'complete', server => '$name', remote_model => 'mock');
		SELECT infer.embed('$name', 'the first call')});
	return $mock;
}

sub servers { return ask("SELECT $_[1] FROM infer.stat_servers WHERE server = '$_[0]'"); }

# Waits until the server's row says that.
sub becomes
{
	my ($name, $what, $wanted, $test) = @_;
	my $found;
	InferTest::wait_until(30, sub { ($found = servers($name, $what)) eq $wanted });
	return is($found, $wanted, $test);
}

my $known = 'incarnation, incarnations';
ask('CREATE EXTENSION pg_inference');

# ----------------------------------------------------------------------------------------------
# Probes: a header, a field of the answer, a metric. A change counts once.

my @options = (['header', 'header:x-incarnation'], ['field', 'field:system_fingerprint'], ['metric', 'metric:process_start_time_seconds']);
# the first one, as in the table that is there after a restart
server('silent', undef, 'incarnation=first');
server(@$_, 'incarnation=first') foreach @options;
server('models', 'field:system_fingerprint', 'incarnation=first', 'health_status=404');
foreach my $name ((map { $_->[0] } @options), 'models')
{
	becomes($name, $known, 'first|0', "gw_7: $name: it is learned from a probe");
	$mocks{$name}->set('incarnation=second');
	becomes($name, $known, 'second|1', "gw_7: $name: ... and so is another one");
}
is(servers('silent', $known), '|0', 'gw_7: a server without the option has none');
is($mocks{$_}->stat('metrics'), 0, "gw_7: $_: nobody asks for metrics") foreach qw(header field silent);
cmp_ok($mocks{metric}->stat('metrics'), '<=', $mocks{metric}->stat('probes'), 'gw_7: metrics are asked for as often as it is probed');
is(ask('SELECT count(*) FROM infer.stat_servers WHERE state <> $$up$$'), 0, 'gw_7: none of it is a failure');

# what no header should hold is kept in a form that can be shown anywhere
$mocks{header}->set('incarnation=' . 'a' x 60 . "\xC3\xA9");
becomes('header', $known, 'a' x 47 . '~dea127c8f883d32d|2', 'gw_7: a text that is not plain');
# metrics that are not there say nothing, and take nothing back
$mocks{metric}->set('incarnation=');
my $asked = $mocks{metric}->stat('metrics');
InferTest::wait_until(30, sub { $mocks{metric}->stat('metrics') > $asked + 1 });
is(servers('metric', $known), 'second|1', 'gw_7: a metric that is gone says nothing');

# ----------------------------------------------------------------------------------------------
# Calls: where no probe tells, answers do. What was learnt of the last incarnation is forgotten.

ask(q{ALTER SYSTEM SET pg_inference.probe_interval = 0; SELECT pg_reload_conf()});
$mocks{$_}->set('defaults', 'dim=4', 'retry_after=-1', 'incarnation=third') foreach qw(header field);
ask("SELECT infer.embed('field', 'in a good answer')");
is(servers('field', $known), 'third|2', 'fail_P72: a call learns it from a field');
ask("SELECT infer.try_embed('header', '[[mock:429]]', options => '{\"max_attempts\": 1}')");
is(servers('header', "$known, excluded_until"), 'third|3|', 'fail_P72: ... or from the header of a refusal, which was sent to the last one');
ask("SELECT infer.try_embed('header', '[[mock:429]] again', options => '{\"max_attempts\": 1}')");
is(servers('header', "$known, excluded_until IS NULL"), 'third|3|f', 'fail_P72: another refusal is its own');
$mocks{header}->set('incarnation=fourth');
ask("SELECT infer.embed('header', 'now it is well')");
is(servers('header', $known . ', excluded_until, latency_p50 < $$1 s$$'), 'fourth|4||t', 'fail_P72: nothing is held against the next one');
$mocks{field}->set('base_ms=1200');
ask("SELECT infer.embed('field', 'slow')");
is(servers('field', 'latency_p99 > $$1 s$$'), 't', 'fail_P72: a slow answer is known');
$mocks{field}->set('base_ms=0', 'incarnation=fourth');
ask("SELECT infer.embed('field', 'fast')");
is(servers('field', 'latency_p99 < $$1 s$$'), 't', 'fail_P72: ... and forgotten');

# An answer to a request that left before a change was heard of does not take the change back.
$mocks{field}->set('hold=1');
my $late = InferProc->start($node, 'late', q{SELECT infer.embed('field', 'late') IS NOT NULL});
InferTest::wait_until(30, sub { $mocks{field}->stat('in_flight') == 1 });
$mocks{field}->set('hold=2', 'incarnation=fifth');
ask("SELECT infer.embed('field', 'early')");
is(servers('field', "$known, in_flight"), 'fifth|4|1', 'fail_P72: it is another one while a request is in flight');
$mocks{field}->set('incarnation=fourth', 'hold=0');
like(($late->finish)[0], qr{^t$}m, 'fail_P72: an answer that comes late');
is(servers('field', "$known, in_flight, outstanding"), 'fifth|4|0|0', 'fail_P72: ... does not bring the last one back');
$mocks{field}->set('incarnation=fifth');

# ----------------------------------------------------------------------------------------------
# References. Whatever the gateway has noticed, a call by one does not send at all.

ask(q{ALTER SYSTEM SET pg_inference.probe_interval = '200ms'; SELECT pg_reload_conf()});
my %refs = map { $_ => ask("SELECT infer.ref('$_')") } qw(header field metric silent);
like($refs{header}, qr/^infer:ref:1:header:\d+\.\d+:fourth:mock$/, 'fail_P72: a reference');
foreach my $name (qw(header field metric))
{
	$mocks{$name}->set('incarnation=restarted');
	becomes($name, 'incarnation', 'restarted', "fail_P72: $name: the gateway has noticed");
	$mocks{$name}->reset;
	is(ask("SELECT reason, execution, attempts FROM infer.try_embed('$refs{$name}', 'by reference')"), 'stale_incarnation|not_admitted|0',
		"fail_P72: $name: a reference never reaches another incarnation");
	is($mocks{$name}->stat('requests'), 0, "fail_P72: $name: ... and nothing has arrived");
	is(ask("SELECT reason FROM infer.try_embed(infer.ref('$name'), 'by a new one')"), '', "fail_P72: $name: a new one does");
}

# It does not wait for its turn to hear that, either.
ask(q{ALTER SERVER header OPTIONS (ADD max_concurrency '1', ADD admission_key 'one at a time')});
$mocks{header}->set('base_ms=100000');
my $long = InferProc->start($node, 'long', q{SET statement_timeout = '15s'; SELECT infer.embed('header', 'long')});
InferTest::wait_until(30, sub { $mocks{header}->stat('in_flight') == 1 });
is(ask("SELECT reason, attempts FROM infer.try_embed('$refs{header}', 'while another one has the permit', options => '{\"timeout\": \"20s\"}')"),
	'stale_incarnation|0', 'fail_P72: a reference that is of no use waits for nothing');
is(ask(q{SELECT in_flight FROM infer.stat_admission WHERE key = 'one at a time'}), 1, 'fail_P72: ... for the other request is still under way');
ask(q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE '%''long''%' AND pid <> pg_backend_pid()});
$long->finish;

# What a session was served by is no reason to go there again when another one is up.
server($_, 'header:x-incarnation', 'incarnation=0') foreach qw(left right);
ask(q{SELECT infer.create_model('both', 'complete', 'left', 'mock'); SELECT infer.add_placement('both', 'right', 'mock')});
sub turns
{
	my ($restarts) = @_;
	my $lib = "$FindBin::Bin/../lib";
	return $node->safe_psql('postgres', 'SET pg_inference.random_seed = 1;' . join('', map {
		my $n = $_;
		my $set = $restarts ? join("\n", map { '\! MOCK_URL=' . $mocks{$_}->url . " $lib/mock set incarnation=$n" } qw(left right)) : '';
		qq{
	SELECT server AS first FROM infer.try_complete('both', 'first $n') \\gset
	$set
	DO \$\$ BEGIN WHILE $restarts = 1 AND (SELECT count(*) FROM infer.stat_servers WHERE incarnation = '$n') < 2 LOOP PERFORM pg_sleep(0.02); END LOOP; END \$\$;
	SELECT server = :'first' FROM infer.try_complete('both', 'second $n');}
	} 1 .. 14));
}
is(turns(0) =~ tr/t//, 14, 'gw_3: a session stays with who served it');
cmp_ok(scalar(() = turns(1) =~ /f/g), '>=', 2, 'gw_3: ... unless another incarnation is up there');

# gw_5: a statement over several servers gets all of its rows from one revision of the model, though one of
# them changes in the midst of it, or is another one from the beginning.
ask(q{ALTER SYSTEM SET pg_inference.probe_interval = 0; SELECT pg_reload_conf()});
my @fleet = qw(v1 v2 v3);
foreach my $name (@fleet)
{
	my $mock = server($name, 'header:x-incarnation', 'incarnation=a', 'base_ms=5', 'jitter=0.2');
	ask(qq{ALTER SERVER $name OPTIONS (ADD max_concurrency '4')});
}
ask(q{SELECT infer.create_model('vectors', 'embed', 'v1', 'mock'); SELECT infer.add_placement('vectors', s, 'mock') FROM unnest('{v2,v3}'::text[]) s});
sub fill
{
	my ($n, $text, $options) = @_;
	return ask(qq{SELECT coalesce(server, '-'), reason, execution, count(*), max(attempts) FROM generate_series(1, $n) i,
		infer.try_embed('vectors', '$text ' || i, '{}', '{"dispatch_batch_size": 1, $options}') GROUP BY 1, 2, 3 ORDER BY 1, 2});
}
sub items { return map { $mocks{$_}->stat('items') } @fleet; }
sub given_fleet { my (%of) = @_; foreach (@fleet) { $mocks{$_}->set('defaults', 'dim=4', 'base_ms=5', 'jitter=0.2', 'incarnation=a', @{ $of{$_} // [] }); $mocks{$_}->reset; } return; }
sub changes { my ($name, $items) = @_; $mocks{$name}->request('POST', "/control?after_items=$items&incarnation=b"); return; }

my $retry = '"mixed_incarnations": "retry"';
given_fleet();
changes('v2', 40);
my $filled = fill(600, 'in its midst', $retry);
my %rows = $filled =~ /^(v\d)\|\|executed\|(\d+)/mg;
my ($v1, $v2, $v3) = items();
is($rows{v1} + $rows{v2} + $rows{v3}, 600, 'gw_5: a server is replaced: all rows are answered') or diag($filled);
cmp_ok($rows{v2}, '<=', 40, 'gw_5: ... none by another revision') or diag($filled);
cmp_ok($v2 - $rows{v2}, '>=', 1, 'gw_5: ... whose answers were thrown away');
cmp_ok($v2 - $rows{v2}, '<=', 8, 'gw_5: ... those that were in flight, and none that was sent later');
is($v1 + $v2 + $v3, 600 + $v2 - $rows{v2}, 'gw_5: ... and asked once more, of the others');
is(ask(q{SELECT errors->>'stale_incarnation' FROM infer.stat_servers WHERE server = 'v2'}), $v2 - $rows{v2}, 'gw_5: ... which the statistics count');
my $explain = sub { return ask(qq{EXPLAIN (ANALYZE, COSTS OFF) SELECT infer.embed('vectors', '$_[0] ' || i, '{}', '{"dispatch_batch_size": 1, $retry}') FROM generate_series(1, 300) i}); };
given_fleet();
ask(qq{SELECT infer.embed('$_', 'settles')}) foreach @fleet;
changes('v3', 30);
like($explain->('explained'), qr/Retries: (\d+) \(stale_incarnation \1\)/, 'gw_5: ... and EXPLAIN');

# from the beginning: whichever answers first
given_fleet(v1 => ['incarnation=b']);
ask(qq{SELECT infer.embed('$_', 'settles')}) foreach @fleet;
$_->reset foreach @mocks{@fleet};
%rows = ($filled = fill(200, 'from the beginning', $retry)) =~ /^(v\d)\|\|executed\|(\d+)/mg;
is(scalar(grep { ($rows{v1} // 0) == $_ } 0, 200), 1, 'gw_5: two revisions are there: all rows are of one of them') or diag($filled);
is(sum0(values %rows), 200, 'gw_5: ... all are answered');

# all change: what is left fails, says why, and is not sent
given_fleet();
ask(qq{SELECT infer.embed('$_', 'settles')}) foreach @fleet;
changes($_, 20) foreach @fleet;
$filled = fill(300, 'all change', $retry);
like($filled, qr/^-\|stale_incarnation\|not_admitted\|\d\d+\|0$/m, 'gw_5: no server of the revision is left: the rest is not sent') or diag($filled);
my $err;
given_fleet();
ask(qq{SELECT infer.embed('$_', 'settles')}) foreach @fleet;
changes($_, 20) foreach @fleet;
$node->psql('postgres', qq{\\set VERBOSITY verbose\nSELECT infer.embed('vectors', 'raises ' || i, '{}', '{"dispatch_batch_size": 1, $retry}') FROM generate_series(1, 300) i}, stderr => \$err);
like($err, qr/R[NX]SIN.*(?:no server that can be asked is "a", which the statement began with|"b" has answered, not "a").*HINT:  Make the statement again/s, 'gw_5: ... and says why');
like(fill(50, 'the next one', $retry), qr/^(?:v\d\|\|executed\|\d+\|1\n?)+$/, 'gw_5: the next statement takes what is there');

# permitted like any other repetition
given_fleet();
ask(qq{SELECT infer.embed('$_', 'settles')}) foreach @fleet;
changes('v2', 20);
like(fill(300, 'never', "$retry, \"retry\": \"never\""), qr/^v2\|stale_incarnation\|executed\|\d+\|1$/m, 'gw_5: nothing is repeated that may not be');
given_fleet();
ask(qq{SELECT infer.embed('$_', 'settles')}) foreach @fleet;
changes('v2', 20);
like(fill(300, 'error', '"mixed_incarnations": "error"'), qr/^v2\|stale_incarnation\|executed\|/m, 'with error nothing is repeated either');
is(ask(q{SELECT coalesce(sum(in_flight + waiting), 0) FROM infer.stat_admission}), 0, 'no permit is held, and nobody waits');

# elsewhere, and later, its place in the table is another one's, or nobody's
my $other = InferTest::new_node('other');
my $url = $mocks{silent}->url;
my $same = "CREATE EXTENSION pg_inference; CREATE SERVER silent FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$url/v1'); SELECT infer.embed('silent/mock', 'there')";
ask('CREATE DATABASE elsewhere');
$_->[0]->safe_psql($_->[1], $same) foreach [$node, 'elsewhere'], [$other, 'postgres'];
my $stale = "SELECT reason, execution FROM infer.try_embed('$refs{silent}', 'by reference')";
is(ask($stale), '|executed', 'fail_P72: a reference without an incarnation works');
$mocks{silent}->reset;
is($node->safe_psql('elsewhere', $stale), 'stale_incarnation|not_admitted', 'fail_P72: ... but not in another database');
is($other->safe_psql('postgres', $stale), 'stale_incarnation|not_admitted', 'fail_P72: ... nor in another instance');
$node->restart;
ask("SELECT infer.embed('silent', 'known again')");
is(ask($stale), 'stale_incarnation|not_admitted', 'fail_P72: ... nor after a restart');
is(ask("SELECT reason FROM infer.try_embed(infer.ref('silent'), 'by a new one')"), '', 'fail_P72: a new one works');
is_deeply([sort keys %{ $mocks{silent}->ledger }], ['by a new one', 'known again'], 'fail_P72: no reference was brought up to date');

done_testing();
