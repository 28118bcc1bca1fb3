<?php

final class PhabricatorCaches extends Phobject {

  public static function destroyRequestCache() {
    gc_collect_cycles();
  }

}
