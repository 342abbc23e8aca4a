# Models with an affinity: requests that begin alike go to the same server (docs/gateway.md). gw_8.
use strict;
use warnings;
use InferTest;
use InferProc;
use List::Util qw(max min sum0 uniq);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my @names = qw(s1 s2 s3);
my %mock = map { $_ => InferTest::Mock->new } @names;
my %port = map { $_ => $mock{$_}->url =~ /:(\d+)$/ } @names;
my $node = InferTest::new_node('affinity', 'pg_inference.streaming_mode = per_row',
	'pg_inference.gateway = off');

sub ask { return $node->safe_psql('postgres', join(";\n", @_)); }

sub given
{
	my (@settings) = @_;
	foreach my $name (grep { $mock{$_} } @names)
	{
		$mock{$name}->set('defaults', 'queue=100000', 'tokens=4', @settings);
		$mock{$name}->reset;
	}
	return;
}

sub requests { return map { $mock{$_}->stat('requests') } @names; }

# A model on the three servers, which takes them in turn where nothing else decides.
sub model
{
	my ($name, $task, $options) = @_;
	ask("SELECT infer.create_model('$name', '$task', strategy => 'rr'$options)",
		map { "SELECT infer.add_placement('$name', '$_', 'mock')" } @names);
	return;
}

# Calls one after the other, each a statement of its own: "PREFIX QUESTION".
sub calls
{
	my ($model, $question, @prefixes) = @_;
	ask(map { "SELECT infer.complete('$model', '$_ $question')" } @prefixes);
	return;
}

# Which servers have executed the question, by prefix.
sub servers
{
	my ($question) = @_;
	my %seen;
	foreach my $name (grep { $mock{$_} } @names)
	{
		my $ledger = $mock{$name}->ledger;
		foreach my $text (keys %$ledger)
		{
			push @{ $seen{$1} }, $name if $text =~ /^(.*) \Q$question\E$/ && $ledger->{$text}{executed};
		}
	}
	return map { $_ => join('+', @{ $seen{$_} }) } keys %seen;
}

my @prefixes = map { sprintf 'prefix%02d', $_ } 1 .. 24;

ask('CREATE EXTENSION pg_inference',
	map { my $url = $mock{$_}->url; qq{CREATE SERVER $_ FOREIGN DATA WRAPPER pg_inference
			OPTIONS (url '$url/v1', admission_key '$_', max_concurrency '32')} } @names);
model('alike', 'complete', ", affinity => 'prefix', affinity_bytes => 8");
model('any', 'complete', '');
model('talk', 'chat', ", affinity => 'prefix', affinity_bytes => 60");
model('vectors', 'embed', ", affinity => 'prefix', affinity_bytes => 8");

# ----------------------------------------------------------------------------------------------
# The same beginning: the same server. Other beginnings: other servers.

given();
calls('alike', $_, @prefixes) foreach qw(one two three);
my %home = servers('one');
is_deeply({ servers('two') }, \%home, 'gw_8: requests that begin alike go to the same server');
is_deeply({ servers('three') }, \%home, '... whatever was asked before');
is(scalar(keys %home), 24, '... one server each') or diag(explain(\%home));
my %share = map { my $name = $_; $name => scalar(grep { $_ eq $name } values %home) } @names;
cmp_ok(min(values %share), '>=', 3, 'gw_8: different beginnings are spread over all servers')
  or diag(explain(\%share));

given();
calls('any', 'q', map { "prefix01 $_" } 1 .. 30);
is(scalar(grep { $_ > 0 } requests()), 3, 'gw_8: without the option nothing is remembered');
given();
calls('any', "q$_", 'prefix01') foreach 1 .. 12;
cmp_ok(scalar(grep { $_ > 0 } requests()), '>=', 2,
	'gw_3: strategy rr: sessions of one call each do not all begin with the same server');

# what counts in a chat are the messages, from the first one on
given();
sub talks
{
	my ($system) = @_;
	given();
	ask(map { qq{SELECT infer.chat('talk', '[{"role": "system", "content": "$system"},
		{"role": "user", "content": "question $_"}]')} } 1 .. 6);
	my @requests = requests();
	return join(' ', grep { $requests[$_] == 6 } 0 .. 2);
}
my @where = map { talks("You are number $_ of those who know all.") } 1 .. 8;
is(scalar(grep { /^\d$/ } @where), 8, 'gw_8: chats with the same first message go to the same server')
  or diag(join(',', @where));
cmp_ok(scalar(uniq(@where)), '>=', 2, '... others to others');

# a request with several inputs has no one beginning
given();
ask('SET pg_inference.streaming_mode = batch',
	map { "SELECT infer.embed('vectors', 'prefix01 ' || i) FROM generate_series(1, 2) i" } 1 .. 30);
is(sum0(requests()), 30, 'thirty batches of two');
is(scalar(grep { $_ > 0 } requests()), 3, 'gw_8: batches of several inputs have no affinity');
given();
ask(map { "SELECT infer.embed('vectors', 'prefix01 $_')" } 1 .. 30);
is_deeply([ sort { $a <=> $b } requests() ], [ 0, 0, 30 ], '... of one they have');

# ----------------------------------------------------------------------------------------------
# Bounded by load: a storm of one beginning is more than its server's share, and others help.

# Twelve sessions, each with one call at a time, which begin together.
given('base_ms=40', 'slots=32');
my $own = $home{prefix01};
my $gate = InferProc->start($node, 'gate', 'SELECT pg_advisory_lock(1); SELECT pg_sleep(60);');
my $waiting = sub { return ask(q{SELECT count(*) FILTER (WHERE NOT granted) || ' ' || count(*)
	FROM pg_locks WHERE locktype = 'advisory'}) };
InferTest::wait_until(30, sub { $waiting->() eq '0 1' });
my @sessions = map { InferProc->start($node, "storm$_", qq{
	SELECT FROM pg_advisory_lock_shared(1);
	DO \$\$ BEGIN FOR i IN 1 .. 25 LOOP
		PERFORM infer.complete('alike', 'prefix01 storm$_ ' || i);
	END LOOP; END \$\$;}) } 1 .. 12;
ok(InferTest::wait_until(30, sub { $waiting->() eq '12 13' }), 'twelve sessions are there');
ask('SELECT pg_terminate_backend(' . $gate->backend . ')');
$gate->finish;
is(join('', map { $_->finish } @sessions), '', 'a storm of one beginning: all are answered');
my %storm = map { $_ => $mock{$_}->stat('requests') } @names;
my @others = map { $storm{$_} } grep { $_ ne $own } @names;
note("own: $storm{$own}, others: @others");
cmp_ok(max(@others), '>=', 60, 'gw_8: ... also by one whose beginning it is not');
cmp_ok($storm{$own}, '>=', 120, '... and its own holds what it can');

# one scan has as much to ask as all of them can bear
given('base_ms=20', 'slots=32');
ask(q{SELECT count(infer.complete('alike', 'prefix01 scan ' || i)) FROM generate_series(1, 600) i});
cmp_ok(min(requests()), '>=', 100, 'gw_8: a scan keeps all servers busy');

# ----------------------------------------------------------------------------------------------
# A server that is gone: only what was its own moves.

given();
$mock{s2}->stop;
delete $mock{s2};
calls('alike', 'gone', @prefixes);
my %now = servers('gone');
my @kept = grep { $home{$_} ne 's2' } @prefixes;
is_deeply({ map { $_ => $now{$_} } @kept }, { map { $_ => $home{$_} } @kept },
	'gw_8: when a server is gone, the others keep what they had');
my @moved = map { $now{$_} } grep { $home{$_} eq 's2' } @prefixes;
is(scalar(grep { /^s[13]$/ } @moved), $share{s2}, '... and its own go to one of the others each');
cmp_ok(scalar(uniq(@moved)), '>=', 2, '... not all to the same') or diag("@moved");
calls('alike', 'still gone', @prefixes);
is_deeply({ servers('still gone') }, \%now, '... and stay there');
$mock{s2} = InferTest::Mock->new('-p', $port{s2}, 'queue=100000', 'tokens=4');
my $n = 0;
ok( InferTest::wait_until(30, sub {
			$n++;
			calls('alike', "back $n", @prefixes);
			my %back = servers("back $n");
			return 0 == grep { $back{$_} ne $home{$_} } @prefixes; }),
	'gw_8: when it is back, all is as before');

is(ask(q{SELECT coalesce(sum(in_flight + waiting), 0) FROM infer.stat_admission}),
	0, 'no permit is held, and nobody waits');
done_testing();
