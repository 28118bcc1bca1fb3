<?php

final class PhabricatorScopedEnv extends Phobject {

  private $source;

  public function __construct(PhabricatorConfigDictionarySource $source) {
    $this->source = $source;
  }

  public function overrideEnvConfig($key, $value) {
    $this->source->setKeys(array($key => $value));
    return $this;
  }

  public function __destruct() {
    PhabricatorEnv::popTestEnvironment();
  }

}
