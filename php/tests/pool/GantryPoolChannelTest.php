<?php

final class GantryPoolChannelTest extends GantryTestCase {

  private $channel;
  private $requests;
  private $answers;

  protected function setUp(): void {
    parent::setUp();

    $family = STREAM_PF_UNIX;
    $type = STREAM_SOCK_STREAM;
    list($this->requests, $input) = stream_socket_pair($family, $type, 0);
    list($this->answers, $output) = stream_socket_pair($family, $type, 0);
    $this->channel = new GantryPoolChannel($input, $output);
  }

  private static function newFrame($header, $body) {
    return pack('NN', strlen($header), strlen($body)).$header.$body;
  }

  public function testFramesAreReadOneAfterAnother() {
    $body = "\0\x83{\n";
    fwrite($this->requests, self::newFrame('{"type":"run"}', $body));
    fwrite($this->requests, self::newFrame('{"type":"leased"}', ''));

    $this->assertSame(
      array(array('type' => 'run'), $body),
      $this->channel->readFrame());

    // The second is in a buffer of PHP by now, not in the pipe.
    $this->assertTrue($this->channel->waitForFrame(0));
    $this->assertSame(
      array(array('type' => 'leased'), ''),
      $this->channel->readFrame());
    $this->assertFalse($this->channel->waitForFrame(0));
  }

  public function testAnAnswerIsAFrame() {
    $this->channel->writeFrame(array('type' => 'outcome', 'leaving' => ''));
    $this->assertSame(
      self::newFrame('{"type":"outcome","leaving":""}', ''),
      fread($this->answers, 8192));
  }

  /**
   * @dataProvider provideCuts
   */
  public function testTheEndIsTheEndWhereverItComes($cut) {
    $frame = self::newFrame('{"type":"run"}', 'body');
    fwrite($this->requests, substr($frame, 0, $cut));
    fclose($this->requests);

    $this->assertTrue($this->channel->waitForFrame(0));
    $this->assertNull($this->channel->readFrame());
  }

  public static function provideCuts() {
    return array(
      'between frames' => array(0),
      'in the lengths' => array(3),
      'in the header' => array(12),
      'in the body' => array(-1),
    );
  }

  /**
   * @dataProvider provideBadFrames
   */
  public function testWhatIsNoFrameIsNotRead($bytes) {
    fwrite($this->requests, $bytes);
    $this->expectException(Exception::class);
    $this->channel->readFrame();
  }

  public static function provideBadFrames() {
    return array(
      'a header that is too long' => array(pack('NN', 1048577, 0)),
      'a body that is too long' => array(pack('NN', 2, 268435457)),
      'a header that is no JSON' => array(self::newFrame('{"type":', '')),
      'words' => array('GET / HTTP/1.1'),
    );
  }

  public function testAnAnswerThatNobodyReadsIsAnError() {
    fclose($this->answers);
    $this->expectException(Exception::class);
    $this->channel->writeFrame(array('type' => 'outcome'));
  }

}
