# What sessions claim of their calls, against what the servers know of them.
#
# A campaign is a list of statements, made from a seed. Each asks for some texts that nobody else asks
# for, so that a text is a call; most store the outcome of each row in the table claims, the others are
# broken off. The servers' ledgers are the oracle: nothing that the extension counts is believed.
#
#   my @statements = InferLedger::plan($seed, $how_many);
#   InferLedger::create_claims($node);              # and a server "direct", trusted, beside "mock"
#   ... run InferLedger::script($_) ...
#   my $found = InferLedger::judge(\@statements, InferLedger::claims($node), $mock->ledger);
#   $found->{violations}, $found->{seen}
#
# The ledgers of several servers are added up with InferLedger::together(map { $_->ledger } @mocks).
# A statement's {members} are further ones of its options.
package InferLedger;

use strict;
use warnings;

# Faults of a campaign, in per cent of the requests, and the mock's other settings.
our %faults = (
	reset => 2, partial => 1, slow => 0.3, hang => 0.3, halfhang => 0.3, stall => 1, die => 3,
	lost => 2, drop => 2, late => 1, garbage => 1, empty => 1, cutchunk => 1, cutclose => 1,
	redirect => 0.7, close => 3, nul => 0.7, latin1 => 0.7, binary => 0.7, json => 1, count => 0.7,
	order => 1, dupindex => 0.3, badindex => 0.3, negindex => 0.3, noindex => 1, someindex => 0.3,
	noindexshort => 0.3, missing3 => 1, dim => 0.5, 400 => 0.7, 401 => 0.5, 403 => 0.5, 404 => 0.5,
	413 => 0.7, 429 => 6, 500 => 1, 503 => 1, status => 1, donestatus => 3);
our @settings = ('reply=echo', 'dim=4', 'base_ms=2', 'jitter=0.5', 'retry_after=0', 'late_ms=600',
	'slow_bytes=16', 'slow_ms=30',
	'refusals=402,405,406,407,410,411,415,422,429,431,451,501,505',
	'failures=408,409,424,499,500,502,503,504,520,522,529');

# What of it is different at a server that is trusted: it says 408, 503 and 529 only of what did not run.
our @trusted = ('refusals=402,405,406,407,408,410,411,415,422,429,431,451,501,503,505,529',
	'failures=409,424,499,500,502,504,520,522');

my @retries = (undef, undef, 'never', 'not_admitted', 'ambiguous', 'ambiguous');

my @deliveries = (undef, undef, undef, 'single', 'reliable', 'reliable', 'unless_failed');

# How a statement ends. Only of "stored" there are claims.
my @ends = (('stored') x 12, qw(timeout cursor rollback));

# Texts that make their request go wrong whenever they are sent, for batches.
my @poison = ('[[mock:400]]', '[[mock:413]]', '[[mock:status 422]]');

sub text { return "$_[0]{kind} $_[0]{number}-$_[1]" . ($_[0]{poison}{ $_[1] } // ''); }

# The texts of a statement.
sub texts { my ($s) = @_; return map { text($s, $_) } 1 .. $s->{rows}; }

# Random numbers that are the same on every machine.
sub draw
{
	my ($state, $n) = @_;
	$$state = ($$state * 1103515245 + 12345) & 0x7fffffff;
	return ($$state >> 8) % $n;
}

sub plan
{
	my ($seed, $n) = @_;
	my $state = $seed;
	my @statements;
	for my $number (1 .. $n)
	{
		my %s = (number => $number, kind => draw(\$state, 5) < 3 ? 'c' : 'm', poison => {});
		$s{rows} = $s{kind} eq 'c' ? 50 : 64;
		$s{retry} = $retries[ draw(\$state, scalar @retries) ];
		$s{delivery} = $deliveries[ draw(\$state, scalar @deliveries) ];
		$s{max_attempts} = 1 + draw(\$state, 4);
		$s{end} = $ends[ draw(\$state, scalar @ends) ];
		$s{enable} = draw(\$state, 8) ? 'on' : 'off';
		$s{trusted} = draw(\$state, 4) == 0;
		$s{timeout_ms} = 2 + draw(\$state, 80);
		$s{fetch} = 1 + draw(\$state, 20);
		# what a function's own body does one by one takes its time
		$s{rows} = 12 if $s{enable} eq 'off';
		if ($s{kind} eq 'm' && draw(\$state, 3) == 0)
		{
			$s{poison}{ 1 + draw(\$state, $s{rows}) } = ' ' . $poison[ draw(\$state, scalar @poison) ];
		}
		push @statements, \%s;
	}
	return @statements;
}

# May what may have run be sent again?
sub ambiguous
{
	my ($s) = @_;
	return 0 if ($s->{retry} // '') eq 'never';
	return ($s->{retry} // '') eq 'ambiguous' || ($s->{delivery} // 'single') ne 'single';
}

# Most executions that a text of this statement may have; {copies} is 1 where a slow request may have
# a second one.
sub most { my ($s) = @_; return (ambiguous($s) ? $s->{max_attempts} : 1) + ($s->{copies} // 0); }

sub create_claims
{
	my ($node) = @_;
	$node->safe_psql('postgres', q{CREATE UNLOGGED TABLE claims (statement int, line int, value text,
		reason text, execution text, attempts int, http_status int, error text)});
	return;
}

sub script
{
	my ($s) = @_;
	my %options = (max_attempts => $s->{max_attempts});
	foreach (qw(retry delivery)) { $options{$_} = $s->{$_} if defined $s->{$_}; }
	my $options = join(', ', (map { qq("$_": "$options{$_}") } sort keys %options), @{ $s->{members} // [] });
	my $function = $s->{kind} eq 'c' ? 'try_complete' : 'try_embed';
	my @poison = map { "WHEN $_ THEN '$s->{poison}{$_}'" } sort keys %{ $s->{poison} };
	my $suffix = @poison ? " || CASE i @poison ELSE '' END" : '';
	my $model = $s->{trusted} ? 'direct/mock' : $s->{kind};
	my $query = qq{SELECT $s->{number}, i, (o).value::text, (o).reason, (o).execution, (o).attempts,
		(o).http_status, (o).error
	FROM (SELECT i, infer.$function('$model', '$s->{kind} $s->{number}-' || i$suffix,
		options => '{$options}') AS o FROM generate_series(1, $s->{rows}) i OFFSET 0) s};
	my %sql = (
		stored => "INSERT INTO claims $query;",
		timeout => "SET statement_timeout = $s->{timeout_ms};\nINSERT INTO claims $query;\nRESET statement_timeout;",
		cursor => "BEGIN;\nDECLARE c CURSOR FOR $query;\nFETCH $s->{fetch} FROM c;\nCLOSE c;\nCOMMIT;",
		rollback => "BEGIN;\nSAVEPOINT a;\nSET LOCAL statement_timeout = $s->{timeout_ms};\n"
		  . "INSERT INTO claims $query;\nROLLBACK TO a;\nCOMMIT;");
	return "SET pg_inference.enable = $s->{enable};\n$sql{ $s->{end} }\n";
}

# statement number => row => claim
sub claims
{
	my ($node) = @_;
	my %claims;
	my @fields = qw(statement line value reason execution attempts http_status error);
	my $rows = $node->safe_psql('postgres',
		q{SELECT statement, line, coalesce(value, '\N'), coalesce(reason, ''), execution, attempts,
			coalesce(http_status, 0), translate(coalesce(error, ''), E'\n|', '  ') FROM claims});
	foreach (split /\n/, $rows)
	{
		my %claim;
		@claim{@fields} = split /\|/, $_, scalar @fields;
		$claim{value} = undef if $claim{value} eq '\N';
		$claims{ $claim{statement} }{ $claim{line} } = \%claim;
	}
	return \%claims;
}

# Statuses that prove nothing of an earlier attempt, but by themselves that this one was refused.
my %refusal = map { $_ => 1 } 400 .. 407, 410 .. 423, 429, 431, 451, 501, 505;

# What one claim says about itself and about its text. Returns complaints; counts what occurred.
sub judge_claim
{
	my ($s, $claim, $known, $seen) = @_;
	my $executed = $known->{executed};
	my $good = defined $claim->{value};
	my @wrong;
	push @wrong, 'both value and reason, or neither' if $good == ($claim->{reason} ne '');
	push @wrong, 'not admitted, but executed' if $claim->{execution} eq 'not_admitted' && $executed;
	push @wrong, 'executed, but the server knows nothing of it' if $claim->{execution} eq 'executed' && !$executed;
	push @wrong, 'a value that nobody has computed' if $good && !$executed;
	push @wrong, 'more executions than attempts' if $executed > $claim->{attempts};
	my $copies = $s->{copies} // 0;
	push @wrong, 'more attempts than allowed' if $claim->{attempts} > $s->{max_attempts} + $copies;
	push @wrong, 'retried, never to be' if ($s->{retry} // '') eq 'never' && $claim->{attempts} > 1 + $copies;
	push @wrong, 'more requests than attempts' if $s->{kind} eq 'c' && $known->{seen} > $claim->{attempts};
	push @wrong, 'an answer that is not its own' if $good && $s->{kind} eq 'c' && $claim->{value} ne text($s, $claim->{line});

	my $ambiguous = ambiguous($s);
	my $again = $claim->{attempts} > 1;
	$seen->{"claim: $claim->{execution}"}++;
	$seen->{"reason: $claim->{reason}"}++ if !$good;
	$seen->{'a value after a refusal'}++ if $good && $again && !$ambiguous;
	$seen->{'a value after a loss'}++ if $good && $again && $ambiguous && $executed > 1;
	$seen->{'refused again and again'}++ if $claim->{execution} eq 'not_admitted' && $again;
	$seen->{'a refusal after a loss keeps the doubt'}++
	  if $claim->{execution} eq 'maybe_executed' && $again && $refusal{ $claim->{http_status} };
	$seen->{'a server is trusted that nothing ran'}++
	  if $s->{trusted} && $claim->{execution} eq 'not_admitted' && $claim->{http_status} =~ /^(408|503|529)$/;
	$seen->{'a second sending on a kept connection is vetoed'}++ if $claim->{error} =~ /closed a kept connection/;
	$seen->{'executed, and lost'}++ if $claim->{execution} eq 'maybe_executed' && $executed == 1;
	$seen->{'maybe executed, and was not'}++ if $claim->{execution} eq 'maybe_executed' && !$executed;
	$seen->{'executed after its deadline'}++ if $claim->{reason} eq 'timeout' && $executed;
	$seen->{'a batch was split'}++ if $s->{kind} eq 'm' && $known->{seen} > $claim->{attempts};
	return @wrong;
}

# Compares everything. Returns { violations => [...], seen => { what => how often }, stored, calls,
# missing => attempts of complete calls that no server has read }.
sub judge
{
	my ($statements, $claims, $ledger) = @_;
	my (@violations, %seen);
	my ($stored, $calls, $missing) = (0, 0, 0);
	foreach my $s (@$statements)
	{
		my $of = $claims->{ $s->{number} };
		my $values = 0;
		$seen{"end: $s->{end}"}++;
		$seen{'a statement was broken off'}++ if !$of;
		for my $row (1 .. $s->{rows})
		{
			my $text = text($s, $row);
			my $known = $ledger->{$text} // { seen => 0, executed => 0 };
			my @wrong;
			$calls++;
			push @wrong, "$known->{executed} executions, " . most($s) . ' allowed' if $known->{executed} > most($s);
			$seen{'executed twice'}++ if $known->{executed} > 1;
			$seen{'executed for nobody'}++ if !$of && $known->{executed};
			if (my $claim = $of && $of->{$row})
			{
				$stored++;
				$values++ if defined $claim->{value};
				push @wrong, judge_claim($s, $claim, $known, \%seen);
				$missing += $claim->{attempts} - $known->{seen} if $s->{kind} eq 'c';
			}
			push @violations, map { "$text: $_: " . describe($s, $of && $of->{$row}, $known) } @wrong;
		}
		foreach my $row ($of ? keys %{ $s->{poison} } : ())
		{
			my $claim = $of->{$row};
			push @violations, text($s, $row) . ': poison with a value' if defined $claim->{value};
			$seen{'poison is alone'}++ if $claim->{execution} eq 'not_admitted' && $values > $s->{rows} / 4;
		}
	}
	return { violations => \@violations, seen => \%seen, stored => $stored, calls => $calls, missing => $missing };
}

# What several servers know of each text.
sub together
{
	my %all;
	foreach my $ledger (@_)
	{
		foreach my $text (keys %$ledger)
		{
			$all{$text}{$_} += $ledger->{$text}{$_} foreach qw(seen executed);
		}
	}
	return \%all;
}

sub describe
{
	my ($s, $claim, $known) = @_;
	my $says = $claim ? join(' ', map { "$_=" . ($claim->{$_} // 'NULL') } sort keys %$claim) : 'no claim';
	return "$says; seen $known->{seen}, executed $known->{executed}; $s->{end}, retry "
	  . ($s->{retry} // 'default') . ', delivery ' . ($s->{delivery} // 'default') . ", at most $s->{max_attempts}, enable $s->{enable}";
}

1;
