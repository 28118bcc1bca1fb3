<?php

// What the demo has in the place of a Phorge: a resident process that runs
// tasks of one class for the Gantry that started it. It reads requests from
// descriptor 3 and answers on descriptor 4, as pool-host.php of the library
// does; bridge/pool has the frames. What a task does is: sleep, and write into
// the ledger of the demo that it ran.

list(, $ledger, $gantry) = $argv;
$requests = fopen('php://fd/3', 'rb');
$answers = fopen('php://fd/4', 'wb');

function frame_read($from, $length) {
  for ($text = ''; strlen($text) < $length; $text .= $more) {
    $more = fread($from, $length - strlen($text));
    if ($more === false || $more === '') {
      exit(0); // Gantry has nothing more to ask
    }
  }
  return $text;
}

function frame_write($to, array $header) {
  $text = json_encode($header);
  fwrite($to, pack('NN', strlen($text), 0).$text);
  fflush($to);
}

frame_write($answers, array(
  'type' => 'ready',
  'protocol' => 1,
  'phorge' => 'none, this is the demo',
  'php' => PHP_VERSION,
  'namespace' => 'demo',
  'readOnly' => false,
  'classes' => array('DemoPHPWorker'),
));

while (true) {
  $lengths = unpack('Nheader/Nbody', frame_read($requests, 8));
  $request = json_decode(frame_read($requests, $lengths['header']), true);
  $data = json_decode(frame_read($requests, $lengths['body']), true);

  $began = microtime(true);
  usleep($data['milliseconds'] * 1000);
  $line = "ran {$request['task']['id']} php ".getmypid()." {$gantry};\n";
  $written = file_put_contents($ledger, $line, FILE_APPEND);

  frame_write($answers, array(
    'type' => 'outcome',
    'request' => $request['request'],
    'outcome' => array(
      'kind' => $written ? 'succeeded' : 'retry',
      'wait' => 5,
      'category' => '',
      'reason' => $written ? '' : 'the ledger cannot be written',
      'durationUs' => (int)((microtime(true) - $began) * 1000000),
      'followUps' => array(),
      'uncaught' => false,
    ),
    'leaving' => '',
    'memory' => memory_get_usage(),
  ));
}
