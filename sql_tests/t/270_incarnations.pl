# Which run of a server answers: learned by probes and by calls, and what a change of it does.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use InferTest;
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
server(@$_, 'incarnation=first') foreach @options;
server('silent', undef, 'incarnation=first');
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

done_testing();
