<?php

/**
 * Puts into words why a task failed, without the secrets of the install. The
 * arguments in a stack trace are never part of it.
 */
final class GantryTaskReasons extends Phobject {

  const MAXIMUM_BYTES = 4096;

  private $secrets;

  /**
   * @return string What was thrown and by what it was caused: at most 4096
   *   bytes of UTF-8. It is logged with its stack trace, too.
   */
  public function logThrowable(PhabricatorWorkerActiveTask $task, $ex) {
    $reason = $this->describeThrowable($ex);
    error_log(
      pht(
        "Task %d (%s): %s\n%s",
        $task->getID(),
        $task->getTaskClass(),
        $reason,
        PhutilErrorHandler::formatStacktrace(
          PhutilErrorHandler::getExceptionTrace($ex))));
    return $reason;
  }

  public function describeThrowable($ex) {
    $parts = array();
    for (; $ex; $ex = $ex->getPrevious()) {
      $parts[] = get_class($ex).': '.$ex->getMessage();
    }
    return $this->redact(implode("\n".pht('caused by').' ', $parts));
  }

  /**
   * @return string At most 4096 bytes of UTF-8.
   */
  public function redact($text) {
    // A message can hold a whole file. Redacting it comes before the final
    // cut, which could leave one half of a secret in sight.
    $text = phutil_utf8ize(substr($text, 0, 16 * self::MAXIMUM_BYTES));

    // Bounded, because libphutil allows little backtracking.
    $text = preg_replace(
      array(
        '((://[^/\s:@]{0,256}):[^/\s]{1,256}@)',
        '(\b(api|cli|clr)-[a-z0-9]{28}\b)',
      ),
      array(
        '\1:********@',
        '\1-********',
      ),
      $text);

    $text = str_replace($this->getSecrets(), '********', $text);

    return id(new PhutilUTF8StringTruncator())
      ->setMaximumBytes(self::MAXIMUM_BYTES)
      ->truncateString($text);
  }

  /**
   * Phorge hides the options that hold secrets, and some that do not, like the
   * name of the database host. The name of the option tells them apart.
   */
  private function getSecrets() {
    if ($this->secrets === null) {
      $secrets = array();
      foreach (PhabricatorApplicationConfigOptions::loadAllOptions() as $option) {
        if ($option->getHidden()) {
          $key = $option->getKey();
          $value = PhabricatorEnv::getEnvConfigIfExists($key);
          $this->gatherSecrets($key, $value, $secrets);
        }
      }
      $this->secrets = array_keys($secrets);
    }
    return $this->secrets;
  }

  private function gatherSecrets($path, $value, array &$secrets) {
    if (is_array($value)) {
      foreach ($value as $key => $inner) {
        $this->gatherSecrets($path.'.'.$key, $inner, $secrets);
      }
      return;
    }

    $is_secret = preg_match('/pass|secret|key|token|credential/i', $path);
    if ($is_secret && is_string($value) && strlen($value) >= 4) {
      $secrets[$value] = true;
    }
  }

}
