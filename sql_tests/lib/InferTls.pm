# Certificates, and TLS fronts for the mock server (lib/tls_front).
#
#   my $pki = InferTls->new($folder);
#   $pki->authority('ca');                                  # ca.pem, ca.key
#   $pki->certificate('server', 'ca', san => 'DNS:good.test,IP:127.0.0.1');
#   my $front = $pki->front('server', upstream => $port);   # with options of tls_front
#   $front->port;  $front->log;  $front->forget;
package InferTls;

use strict;
use warnings;
use File::Basename qw(dirname);
use File::Spec;
use POSIX ();
use Test::More;

sub new
{
	my ($class, $folder) = @_;
	return bless { folder => $folder, fronts => 0 }, $class;
}

sub path { return "$_[0]->{folder}/$_[1]"; }

sub openssl
{
	my ($self, @arguments) = @_;
	my $log = $self->path('openssl.log');
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		open(STDIN, '<', '/dev/null');
		open(STDOUT, '>>', $log);
		open(STDERR, '>>', $log);
		exec('openssl', @arguments) or POSIX::_exit(127);
	}
	waitpid($pid, 0);
	BAIL_OUT("openssl @arguments: see $log") if $?;
	return;
}

# NAME.pem, signed by itself, and NAME.key.
sub authority
{
	my ($self, $name) = @_;
	$self->openssl(qw(req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650),
		'-subj', "/CN=$name", '-addext', 'basicConstraints=critical,CA:TRUE', '-addext',
		'subjectAltName=DNS:good.test,IP:127.0.0.1',
		'-keyout', $self->path("$name.key"), '-out', $self->path("$name.pem"));
	return;
}

# NAME.pem with common name NAME, signed by the authority, and NAME.key. Options: san, expired.
sub certificate
{
	my ($self, $name, $authority, %options) = @_;
	$self->openssl(qw(req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes),
		'-subj', "/CN=$name", '-addext', 'subjectAltName=' . ($options{san} // 'DNS:unnamed.test'),
		'-keyout', $self->path("$name.key"), '-out', $self->path("$name.csr"));
	open(my $index, '>', $self->path('index')) or die $!;
	close $index;
	open(my $config, '>', $self->path('ca.cnf')) or die $!;
	print $config "[ca]\ndefault_ca=c\n[c]\ndatabase=", $self->path('index'), "\nnew_certs_dir=$self->{folder}\n",
	  "default_md=sha256\npolicy=p\ncopy_extensions=copy\nrand_serial=yes\n[p]\ncommonName=supplied\n";
	close $config;
	$self->openssl(qw(ca -batch -notext -config), $self->path('ca.cnf'),
		'-startdate', '20200101000000Z', '-enddate', $options{expired} ? '20200102000000Z' : '20490101000000Z',
		'-cert', $self->path("$authority.pem"), '-keyfile', $self->path("$authority.key"),
		'-in', $self->path("$name.csr"), '-out', $self->path("$name.pem"));
	return;
}

# Makes the authority one of a folder of trusted ones, which is returned.
sub folder_of
{
	my ($self, $name) = @_;
	my $folder = $self->path('trusted');
	mkdir $folder;
	$self->openssl(qw(x509 -noout -subject_hash -in), $self->path("$name.pem"), '-out', $self->path('hash'));
	open(my $in, '<', $self->path('hash')) or die $!;
	my $hash = <$in>;
	chomp $hash;
	symlink $self->path("$name.pem"), "$folder/$hash.0" or die $!;
	return $folder;
}

sub front
{
	my ($self, $name, %options) = @_;
	my $log = $self->path('front' . ++$self->{fronts});
	my @arguments = map { defined $options{$_} ? ("--$_" =~ tr/_/-/r, $options{$_}) : ("--$_" =~ tr/_/-/r) } keys %options;
	my $pid = open(my $out, '-|', File::Spec->rel2abs(dirname(__FILE__) . '/tls_front'),
		'--cert', $self->path("$name.pem"), '--key', $self->path("$name.key"), '--log', $log, @arguments)
	  or die "cannot start tls_front: $!";
	my $line = <$out> // '';
	BAIL_OUT('tls_front did not start') unless $line =~ /listening on (\d+)/;
	return bless { pid => $pid, out => $out, port => $1, log => $log }, 'InferTls::Front';
}

package InferTls::Front;

sub port { return $_[0]->{port}; }

# Lines "ok|failed NAME SUBJECT" or "shut MS -", one for each connection.
sub log
{
	my ($self) = @_;
	open(my $in, '<', $self->{log}) or return '';
	local $/;
	return scalar(<$in>) // '';
}

sub forget { unlink $_[0]->{log}; return; }

sub DESTROY
{
	my ($self) = @_;
	local ($?, $!, $@);
	kill 'TERM', $self->{pid};
	close $self->{out};
	return;
}

1;
