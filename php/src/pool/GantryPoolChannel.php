<?php

/**
 * Frames between the pool and one of its processes.
 *
 * A frame is the length of its header and the length of its body, as unsigned
 * 32 bit big-endian integers, then the header, a JSON object, then the body,
 * which is bytes.
 */
final class GantryPoolChannel extends Phobject {

  const MAXIMUM_HEADER = 1048576;
  const MAXIMUM_BODY = 268435456;

  private $input;
  private $output;

  /**
   * @param resource $input Stream to read from, blocking.
   * @param resource $output Stream to write to, blocking.
   */
  public function __construct($input, $output) {
    $this->input = $input;
    $this->output = $output;
  }

  /**
   * @return GantryPoolChannel|null Null if the descriptors are no pipes.
   */
  public static function newFromDescriptors($input, $output) {
    $streams = array(
      @fopen('php://fd/'.$input, 'rb'),
      @fopen('php://fd/'.$output, 'wb'),
    );

    foreach ($streams as $stream) {
      $type = $stream ? (idx(fstat($stream), 'mode') & 0170000) : 0;
      if ($type !== 0010000 && $type !== 0140000) {
        return null;
      }
    }

    self::closeDescriptorsOnExec();
    return new self($streams[0], $streams[1]);
  }

  /**
   * PHP opens a copy of the descriptor it is told to. Both would be inherited
   * by every git and ssh that a task starts, and those can live for long. PHP
   * has no function for it, and need not have FFI.
   */
  private static function closeDescriptorsOnExec() {
    if (!extension_loaded('ffi')) {
      return;
    }

    try {
      $libc = FFI::cdef('int fcntl(int fd, int command, ...);');
    } catch (FFI\Exception $ex) {
      return;
    }

    $f_setfd = 2;
    $fd_cloexec = 1;
    foreach (scandir('/proc/self/fd') as $descriptor) {
      if ((int)$descriptor > 2) {
        $libc->fcntl((int)$descriptor, $f_setfd, $fd_cloexec);
      }
    }
  }

  /**
   * @return bool Whether there is a frame or the end. A signal cuts the wait.
   */
  public function waitForFrame($seconds) {
    $read = array($this->input);
    $none = array();
    return (bool)@stream_select($read, $none, $none, $seconds);
  }

  /**
   * @return array|null Header and body; null when the other side has gone.
   */
  public function readFrame() {
    $lengths = $this->readBytes(8);
    if ($lengths === null) {
      return null;
    }

    $lengths = unpack('Nheader/Nbody', $lengths);
    if ($lengths['header'] > self::MAXIMUM_HEADER ||
        $lengths['body'] > self::MAXIMUM_BODY) {
      throw new Exception(pht('A frame is too long. This is no Gantry pool.'));
    }

    $header = $this->readBytes($lengths['header']);
    $body = $this->readBytes($lengths['body']);
    if ($header === null || $body === null) {
      return null;
    }

    return array(phutil_json_decode($header), $body);
  }

  public function writeFrame(array $header) {
    $header = phutil_json_encode($header);
    if (strlen($header) > self::MAXIMUM_HEADER) {
      throw new Exception(pht('A frame would be too long.'));
    }

    $frame = pack('NN', strlen($header), 0).$header;
    while (strlen($frame)) {
      $written = fwrite($this->output, $frame);
      if (!$written) {
        throw new Exception(pht('Nobody reads what this process answers.'));
      }
      $frame = substr($frame, $written);
    }
  }

  private function readBytes($length) {
    $bytes = '';
    while (strlen($bytes) < $length) {
      $chunk = fread($this->input, $length - strlen($bytes));
      if (!strlen($chunk) && feof($this->input)) {
        return null;
      }
      $bytes .= $chunk;
    }
    return $bytes;
  }

}
