# What the TAP tests share: a server with pg_inference loaded, and a mock inference server.
#
#   use InferTest;
#   my $node = InferTest::new_node('main', 'statement_timeout = 0');
#   my $mock = InferTest::Mock->new('base_ms=100', 'slots=8');
#   InferTest::connect_mock($node, $mock, max_concurrency => 8);   # server "mock", models "m" and "c"
#   $node->safe_psql('postgres', q{SELECT infer.embed('m', 'hello')});
#   is($mock->stat('requests'), 1);
package InferTest;

use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

# A started server; further arguments are lines for postgresql.conf. The gateway is off unless they
# speak of it: its probes would be counted with the requests that a test makes.
sub new_node
{
	my ($name, @conf) = @_;
	unshift @conf, 'pg_inference.gateway = off' unless grep { /gateway/ } @conf;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init;
	$node->append_conf('postgresql.conf',
		join("\n", "shared_preload_libraries = 'pg_inference'", @conf, ''));
	$node->start;
	return $node;
}

# Creates extension, server and models: "m" embeds, "c" completes. Options are those of the server.
sub connect_mock
{
	my ($node, $mock, %options) = @_;
	my $list = join('', map { ", $_ '$options{$_}'" } sort keys %options);
	my $url = $mock->url;
	$node->safe_psql(
		'postgres', qq{
		CREATE EXTENSION IF NOT EXISTS pg_inference;
		CREATE SERVER mock FOREIGN DATA WRAPPER pg_inference OPTIONS (url '$url/v1'$list);
		SELECT infer.create_model('m', task => 'embed', server => 'mock', remote_model => 'mock');
		SELECT infer.create_model('c', task => 'complete', server => 'mock', remote_model => 'mock');
	});
	return;
}

# What psql says on stderr of a script, in a session of its own: errors with their SQLSTATE.
sub error
{
	my ($node, @sql) = @_;
	my (undef, undef, $said) = $node->psql('postgres', join("\n", '\set VERBOSITY verbose', @sql));
	return $said;
}

# A server at that url whose admission key has its name.
sub create_server
{
	my ($node, $name, $url, %options) = @_;
	my $list = join('', map { ", $_ '$options{$_}'" } sort keys %options);
	$node->safe_psql('postgres', qq{CREATE SERVER "$name" FOREIGN DATA WRAPPER pg_inference
		OPTIONS (url '$url/v1', admission_key '$name'$list)});
	return;
}

# These columns of the key's row in infer.stat_admission.
sub admission
{
	my ($node, $key, $columns) = @_;
	return $node->safe_psql('postgres', qq{SELECT $columns FROM infer.stat_admission WHERE key = '$key'});
}

# A statement of so many completions, which says how many it got: "rows|N".
sub rows_of
{
	my ($server, $label, $n) = @_;
	return qq{SELECT 'rows', count(infer.complete('$server/m', '$label ' || i)) FROM generate_series(1, $n) i;\n};
}

# Waits until the code returns true; false after the given seconds.
sub wait_until
{
	my ($seconds, $code) = @_;
	my $until = time + $seconds;
	while (time < $until)
	{
		return 1 if $code->();
		sleep 0.01;
	}
	return $code->() ? 1 : 0;
}

package InferTest::Mock;

use strict;
use warnings;
use File::Basename qw(dirname);
use File::Spec;
use HTTP::Tiny;
use JSON::PP;

# Starts a mock server on a free port; arguments are its settings.
sub new
{
	my ($class, @settings) = @_;
	my $binary = File::Spec->rel2abs(dirname(__FILE__) . '/../mockd/mockd');
	my $pid = open(my $out, '-|', $binary, '-p', '0', @settings)
	  or die "cannot start $binary: $!";
	my $line = <$out>;
	die "the mock server did not start" unless defined $line && $line =~ m{listening on (\S+)};
	return bless {
		url => $1,
		pid => $pid,
		out => $out,
		http => HTTP::Tiny->new(timeout => 10, keep_alive => 0, proxy => undef)
	}, $class;
}

sub url { return $_[0]->{url}; }
sub pid { return $_[0]->{pid}; }

sub request
{
	my ($self, $method, $path) = @_;
	my $answer = $self->{http}->request($method, $self->{url} . $path);
	die "mock: $method $path: $answer->{status} $answer->{content}" unless $answer->{success};
	return decode_json($answer->{content});
}

# Changes settings: $mock->set('fault_500=100', 'base_ms=5'); 'defaults' resets all.
sub set
{
	my ($self, @settings) = @_;
	return $self->request('POST', '/control?' . join('&', @settings));
}

sub reset { return $_[0]->request('POST', '/reset'); }
sub stats { return $_[0]->request('GET', '/stats'); }
sub stat { return $_[0]->stats->{ $_[1] }; }
sub connections { return $_[0]->request('GET', '/stats/connections'); }

# Answered calls, in that order: items, tokens, status.
sub sizes { return $_[0]->request('GET', '/stats/sizes'); }

# Texts executed at least so many times (default 1), with their counts.
sub items { return $_[0]->request('GET', '/stats/items?min=' . ($_[1] // 1)); }

# How often each fault has struck.
sub faults { return $_[0]->request('GET', '/stats/faults'); }

# What the server knows of each text (its first 47 bytes) since the last reset: text => { seen,
# executed, first_seen, last_seen, first_executed, last_executed }, times in ms of CLOCK_MONOTONIC.
sub ledger
{
	my ($self) = @_;
	my @fields = qw(seen executed first_seen last_seen first_executed last_executed);
	my $answer = $self->{http}->get($self->{url} . '/stats/ledger');
	die "mock: $answer->{status} $answer->{content}" unless $answer->{success};
	my %ledger;
	foreach (split /\n/, $answer->{content})
	{
		my @values = split /\t/, $_, 7;
		my $text = pop @values;
		$text = $text =~ /\\/ ? JSON::PP->new->allow_nonref->decode($text) : substr($text, 1, -1);
		@{ $ledger{$text} }{@fields} = @values;
	}
	return \%ledger;
}

# Connections of clients that are open now: all but the one that asks.
sub open_connections { return $_[0]->stat('open_connections') - 1; }

sub stop
{
	my ($self) = @_;
	return unless $self->{pid};
	kill 'TERM', $self->{pid};
	close $self->{out};
	$self->{pid} = 0;
	return;
}

sub DESTROY
{
	my ($self) = @_;
	local ($?, $!, $@);
	$self->stop;
	return;
}

1;
