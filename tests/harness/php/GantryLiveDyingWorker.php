<?php

/**
 * Ends the process that executes it, in the way its data says, or works on for
 * so many seconds, or until a file is there. It leaves a line for every execution, as GantryLiveWorker.
 */
final class GantryLiveDyingWorker extends PhabricatorWorker {

  protected function doWork() {
    file_put_contents(
      dirname(phutil_get_library_root('phabricator')).'/executions',
      sprintf("%d %d\n", $this->getCurrentWorkerTaskID(), getmypid()),
      FILE_APPEND);

    switch (idx($this->getTaskData(), 'die')) {
      case 'exit':
        echo 'Half a page.';
        exit(1);
      case 'memory':
        ini_set('memory_limit', memory_get_usage(true) + 8388608);
        return strlen(str_repeat('x', 1 << 28));
      case 'fatal':
        return eval('final class PhabricatorWorker {}');
    }

    $until = idx($this->getTaskData(), 'until');
    while ($until !== null && !file_exists($until)) {
      usleep(20000);
    }

    usleep((int)(1000000 * idx($this->getTaskData(), 'duration', 0)));
  }

}
