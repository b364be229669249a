# Takes chips until it carries two, then turns back.
use JSON::PP;
$| = 1; # flush each line
while (my $line = <STDIN>) {
  my $message = decode_json($line);
  print qq({"type":"ready"}\n) if $message->{type} eq "hello";
  next unless $message->{type} eq "decide";
  my ($view, @legal) = ($message->{view}, @{$message->{legal}});
  my $load = @{$view->{divers}[$view->{seat}]{cargo}};
  my $action = $legal[0]; # the default: down, leave, or an order
  $action = $legal[1] if $legal[1] eq ($load < 2 ? "take" : "back");
  print encode_json({type => "answer", id => $message->{id}, action => $action}), "\n";
}
