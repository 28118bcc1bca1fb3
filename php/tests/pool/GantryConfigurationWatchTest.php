<?php

final class GantryConfigurationWatchTest extends GantryTestCase {

  public function testWhatWasReadIsInUse() {
    $watch = new GantryConfigurationWatch();
    $this->assertFalse($watch->hasChanged());
  }

  public function testAValueInTheFileIsSeenAndSeenToGo() {
    $watch = new GantryConfigurationWatch();
    $this->writeConfiguration(array('phd.taskmasters' => 17));
    $this->assertTrue($watch->hasChanged());

    $this->restoreConfiguration();
    $this->assertFalse($watch->hasChanged());
  }

  /**
   * The file is compared with what this process has read, whenever that was.
   */
  public function testAChangeBeforeTheFirstLookIsSeen() {
    $this->writeConfiguration(array('phd.taskmasters' => 17));
    $watch = new GantryConfigurationWatch();
    $this->assertTrue($watch->hasChanged());
  }

  public function testAFileThatIsHalfWrittenIsNoChange() {
    $watch = new GantryConfigurationWatch();
    $this->writeConfigurationText('{"phd.taskmas');
    $this->assertFalse($watch->hasChanged());
    $this->assertNotSame('', $this->getLog());
  }

  public function testAValueInTheDatabaseIsSeen() {
    $watch = new GantryConfigurationWatch();
    $this->writeDatabaseConfiguration(
      'metamta.differential.inline-patches',
      17);
    try {
      $this->assertTrue($watch->hasChanged());
    } finally {
      $this->writeDatabaseConfiguration(
        'metamta.differential.inline-patches',
        null);
    }
    $this->assertFalse($watch->hasChanged());
  }

  public function testTheFileThatTheEnvironmentNamesIsSeen() {
    $name = 'gantry-test-'.bin2hex(random_bytes(8));
    $file = dirname(phutil_get_library_root('phabricator')).
      '/conf/'.$name.'.conf.php';
    if (!is_dir(dirname($file))) {
      mkdir(dirname($file));
    }
    file_put_contents($file, '<?php return array();');
    putenv('PHABRICATOR_ENV='.$name);

    try {
      $watch = new GantryConfigurationWatch();
      $this->assertFalse($watch->hasChanged());
      file_put_contents($file, '<?php return array("phd.taskmasters" => 7);');
      $this->assertTrue($watch->hasChanged());
    } finally {
      putenv('PHABRICATOR_ENV');
      unlink($file);
    }
  }

  private function writeDatabaseConfiguration($key, $value) {
    if (class_exists('PhabricatorConfigEntry')) {
      $entry = PhabricatorConfigEntry::loadConfigEntry($key)
        ->setValue($value)
        ->setIsDeleted((int)($value === null))
        ->save();
      return;
    }

    $path = getenv('GANTRY_TEST_CONF').'/database.json';
    if ($value === null) {
      unlink($path);
    } else {
      file_put_contents($path, phutil_json_encode(array($key => $value)));
    }
  }

}
