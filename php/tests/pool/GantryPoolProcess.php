<?php

/**
 * The other side of a pool process, for tests.
 */
final class GantryPoolProcess extends Phobject {

  private $process;
  private $requests;
  private $answers;
  private $printed;

  public function __construct(array $options = array()) {
    $this->printed = tempnam(sys_get_temp_dir(), 'gantry-printed-');

    $command = array_merge(
      array(PHP_BINARY),
      idx($options, 'php', array()),
      array(dirname(dirname(__DIR__)).'/bin/pool-host.php'),
      idx($options, 'arguments', array('--phorge', GANTRY_TEST_PHORGE)));

    $descriptors = array(
      0 => array('file', '/dev/null', 'r'),
      1 => array('file', $this->printed, 'a'),
      2 => array('file', $this->printed, 'a'),
    );
    if (idx($options, 'pipes', true)) {
      $descriptors[3] = array('pipe', 'r');
      $descriptors[4] = array('pipe', 'w');
    }

    $pipes = null;
    $this->process = proc_open($command, $descriptors, $pipes);
    $this->requests = idx($pipes, 3);
    $this->answers = idx($pipes, 4);
  }

  public function __destruct() {
    if ($this->process) {
      proc_terminate($this->process, SIGKILL);
    }
    unlink($this->printed);
  }

  public function write(array $header, $body = '') {
    $header = phutil_json_encode($header);
    fwrite(
      $this->requests,
      pack('NN', strlen($header), strlen($body)).$header.$body);
  }

  /**
   * @return array|null Null at the end.
   */
  public function read() {
    $lengths = stream_get_contents($this->answers, 8);
    if (strlen($lengths) < 8) {
      return null;
    }
    $lengths = unpack('Nheader/Nbody', $lengths);
    $header = stream_get_contents($this->answers, $lengths['header']);
    return phutil_json_decode($header);
  }

  /**
   * @return string Id of the request.
   */
  public function request($data, array $columns = array()) {
    static $id = 0;

    $request = bin2hex(random_bytes(16));
    $this->write(
      array(
        'type' => 'run',
        'request' => $request,
        'task' => $columns + array(
          'id' => ++$id,
          'taskClass' => 'GantryProbeWorker',
          'leaseOwner' => 'gantry:test',
          'leaseExpires' => 4000000000,
          'failureCount' => 0,
          'failureTime' => null,
          'priority' => 2000,
          'objectPHID' => null,
          'containerPHID' => null,
          'dateCreated' => 1700000000,
          'dateModified' => 1700000000,
          'hasData' => true,
        ),
      ),
      is_string($data) ? $data : phutil_json_encode($data));
    return $request;
  }

  /**
   * @return array|null The answer; null if the process died of it.
   */
  public function execute($act, $with = null) {
    $this->request(
      array(
        'act' => $act,
        'with' => $with,
      ));
    return $this->read();
  }

  public function signal($signal) {
    proc_terminate($this->process, $signal);
  }

  public function closeRequests() {
    fclose($this->requests);
  }

  /**
   * @return int Exit code.
   */
  public function wait() {
    // The end of its answers is the end of the process: nobody inherits them.
    if ($this->answers) {
      stream_get_contents($this->answers);
    }

    $code = proc_close($this->process);
    $this->process = null;
    return $code;
  }

  public function getPrinted() {
    return file_get_contents($this->printed);
  }

}
