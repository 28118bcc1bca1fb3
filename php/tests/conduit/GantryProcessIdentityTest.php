<?php

final class GantryProcessIdentityTest extends GantryTestCase {

  public function testAProcessIsGoneOnceItHasEnded() {
    $process = proc_open(array('cat'), array(array('pipe', 'r')), $pipes);
    $pid = proc_get_status($process)['pid'];
    list($place) = explode('.', GantryProcessIdentity::getName());
    $stat = explode(' ', file_get_contents("/proc/{$pid}/stat"));
    $name = "{$place}.{$pid}.{$stat[21]}";
    $this->assertFalse(GantryProcessIdentity::isGone($name));

    fclose($pipes[0]);
    proc_close($process);
    $this->assertTrue(GantryProcessIdentity::isGone($name));
  }

  public function testAProcessKnowsItself() {
    $name = GantryProcessIdentity::getName();
    $this->assertMatchesRegularExpression('/^[0-9a-f]{12}\.\d+\.\d+\z/', $name);
    $this->assertLessThanOrEqual(40, strlen($name));
  }

  public function testANumberThatIsUsedAgainIsNotTheSameProcess() {
    list($place, $pid, $start) = explode('.', GantryProcessIdentity::getName());
    $this->assertFalse(GantryProcessIdentity::isGone("{$place}.{$pid}.{$start}"));
    $earlier = $start - 1;
    $this->assertTrue(
      GantryProcessIdentity::isGone("{$place}.{$pid}.{$earlier}"));
  }

  /**
   * @dataProvider provideUnknown
   */
  public function testOfWhatRunsElsewhereNothingIsKnown($name) {
    $this->assertFalse(GantryProcessIdentity::isGone($name));
  }

  public static function provideUnknown() {
    return array(
      'another host' => array('000000000000.1.1'),
      'a host without procfs' => array(''),
      'a name that is none' => array('1'),
    );
  }

}
