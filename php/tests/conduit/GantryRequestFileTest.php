<?php

final class GantryRequestFileTest extends GantryTestCase {

  public function testARequestIsOverWhenItsFileIsNotLockedAnyMore() {
    $file = GantryRequestFile::newLocked();
    $name = $file->getName();
    $this->assertMatchesRegularExpression(
      '/^[0-9a-f]{8}\.[0-9a-f]{16}\z/',
      $name);
    $this->assertFalse(GantryRequestFile::isOver($name));

    $path = $this->getPath($name);
    $this->assertSame(0600, fileperms($path) & 0777);

    unset($file);
    $this->assertFileDoesNotExist($path);
    $this->assertTrue(GantryRequestFile::isOver($name));
  }

  public function testWhatAKilledProcessLeavesIsRemoved() {
    $init = GANTRY_TEST_PHORGE.'/scripts/init/init-script-with-signals.php';
    $code = 'require $argv[1];'.
      '$file = GantryRequestFile::newLocked();'.
      'echo $file->getName()."\n";'.
      'fgets(STDIN);';
    $process = proc_open(
      array(PHP_BINARY, '-r', $code, $init),
      array(array('pipe', 'r'), array('pipe', 'w')),
      $pipes);
    $name = trim(fgets($pipes[1]));
    $this->assertFalse(GantryRequestFile::isOver($name));

    proc_terminate($process, SIGKILL);
    fclose($pipes[0]);
    proc_close($process);
    $this->assertFileExists($this->getPath($name));
    $this->assertTrue(GantryRequestFile::isOver($name));
    $this->assertFileDoesNotExist($this->getPath($name));
  }

  public function testAProgramThatATaskStartsDoesNotKeepTheLock() {
    $file = GantryRequestFile::newLocked();
    $name = $file->getName();
    $process = proc_open(array('cat'), array(array('pipe', 'r')), $pipes);
    unset($file);
    $this->assertTrue(GantryRequestFile::isOver($name));
    fclose($pipes[0]);
    proc_close($process);
  }

  /**
   * @dataProvider provideUnknown
   */
  public function testOfWhatRunsElsewhereNothingIsKnown($name) {
    $this->assertNull(GantryRequestFile::isOver($name));
  }

  public static function provideUnknown() {
    return array(
      'another host' => array('00000000.0000000000000000'),
      'a request without a file' => array(''),
      'a name that is none' => array('1'),
    );
  }

  private function getPath($name) {
    list(, $random) = explode('.', $name);
    return sys_get_temp_dir().'/gantry-request-'.$random;
  }

}
