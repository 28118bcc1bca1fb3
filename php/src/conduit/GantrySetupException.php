<?php

/**
 * Something that an administrator has to mend before Gantry can work. The
 * message says what it is.
 */
final class GantrySetupException extends Exception {

  private $commands;

  /**
   * @param string $message What is wrong.
   * @param list<string> $commands What to run to mend it.
   */
  public function __construct($message, array $commands = array()) {
    parent::__construct($message);
    $this->commands = $commands;
  }

  public function getCommands() {
    return $this->commands;
  }

}
