<?php

final class GantryProcessIdentityTest extends GantryTestCase {

  public function testAProcessIsGoneOnceItHasEnded() {
    $process = proc_open(array('cat'), array(array('pipe', 'r')), $pipes);
    $pid = proc_get_status($process)['pid'];
    list($place, $boot) = explode('.', GantryProcessIdentity::getName());
    $stat = explode(' ', file_get_contents("/proc/{$pid}/stat"));
    $name = "{$place}.{$boot}.{$pid}.{$stat[21]}";
    $this->assertFalse(GantryProcessIdentity::isGone($name));

    fclose($pipes[0]);
    proc_close($process);
    $this->assertTrue(GantryProcessIdentity::isGone($name));
  }

  public function testAProcessKnowsItself() {
    $name = GantryProcessIdentity::getName();
    $this->assertMatchesRegularExpression(
      '/^[0-9a-f]{8}\.[0-9a-f]{8}\.\d+\.\d+\z/',
      $name);
    $this->assertLessThanOrEqual(37, strlen($name));
  }

  public function testANumberThatIsUsedAgainIsNotTheSameProcess() {
    $name = GantryProcessIdentity::getName();
    list($place, $boot, $pid, $start) = explode('.', $name);
    $this->assertFalse(GantryProcessIdentity::isGone($name));
    $earlier = $start - 1;
    $this->assertTrue(
      GantryProcessIdentity::isGone("{$place}.{$boot}.{$pid}.{$earlier}"));
  }

  public function testNothingOutlivesTheBootOfItsHost() {
    $name = GantryProcessIdentity::getName();
    list($place, $boot, $pid, $start) = explode('.', $name);
    $this->assertTrue(
      GantryProcessIdentity::isGone("{$place}.00000000.{$pid}.{$start}"));
    $this->assertFalse(
      GantryProcessIdentity::isGone("00000000.{$boot}.{$pid}.{$start}"));
  }

  /**
   * @dataProvider provideUnknown
   */
  public function testOfWhatRunsElsewhereNothingIsKnown($name) {
    $this->assertFalse(GantryProcessIdentity::isGone($name));
  }

  public static function provideUnknown() {
    return array(
      'another host' => array('00000000.00000000.1.1'),
      'a host without procfs' => array(''),
      'a name that is none' => array('1'),
      'a name of an older library' => array('000000000000.1.1'),
    );
  }

}
