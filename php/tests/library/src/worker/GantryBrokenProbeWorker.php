<?php

/**
 * Can not be loaded.
 */
final class GantryBrokenProbeWorker
  extends PhabricatorWorker
  implements GantryNoSuchInterface {

  protected function doWork() {}

}
