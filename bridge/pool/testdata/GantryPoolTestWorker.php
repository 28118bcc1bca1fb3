<?php

/**
 * Misbehaves as its data says, in a real process of the pool.
 */
final class GantryPoolTestWorker extends PhabricatorWorker {

  protected function doWork() {
    $data = $this->getTaskData();
    if (isset($data['started'])) {
      $this->writeFile($data['started'], getmypid());
    }

    switch (idx($data, 'do')) {
      case 'print':
        echo str_repeat('x', 1048576)."\n";
        fwrite(STDERR, "A word on stderr.\n");
        file_put_contents('php://stdout', "\0\0\0\2\0\0\0\0{}\n");
        break;
      case 'hold':
        $memory = str_repeat('x', $data['bytes']);
        while (!file_exists($data['file'])) {
          usleep(1000);
          clearstatcache();
        }
        break;
      case 'exhaust':
        ini_set('memory_limit', memory_get_usage(true) + 8388608);
        str_repeat('x', 1073741824);
        break;
      case 'exit':
        exit(7);
      case 'sleep':
        $program = proc_open(array('sleep', '1000'), array(), $pipes);
        $status = proc_get_status($program);
        $this->writeFile($data['file'], $status['pid']);
        sleep(1000);
        break;
      case 'orphan':
        $script = 'printf %s $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 1000';
        $program = proc_open(
          array('setsid', 'sh', '-c', $script, $data['file']),
          array(),
          $pipes);
        while (!file_exists($data['file'])) {
          usleep(1000);
          clearstatcache();
        }
        posix_kill(getmypid(), SIGKILL);
        break;
    }
  }

  private function writeFile($path, $content) {
    file_put_contents($path.'.new', $content);
    rename($path.'.new', $path);
  }

}
