<?php

abstract class PhabricatorConfigSource extends Phobject {

  abstract public function getAllKeys();

}
