<?php

use PHPUnit\Framework\TestCase;

final class GantryKeyringTest extends TestCase {

  const SECRET = 'Zq8vT3mK0xW5bN7cR2yH4jL6pD9sF1gA';

  private $path;

  protected function setUp(): void {
    $this->path = tempnam(sys_get_temp_dir(), 'gantry-keys-');
  }

  protected function tearDown(): void {
    @unlink($this->path);
  }

  private function writeFile($text, $mode = 0640) {
    file_put_contents($this->path, $text);
    chmod($this->path, $mode);
  }

  public function testTwoKeysAreLiveAtOnce() {
    $this->writeFile(
      json_encode(array('2026' => self::SECRET, 'next' => self::SECRET.'!')));
    $keyring = GantryKeyring::newFromFile($this->path);

    $this->assertSame(array('2026', 'next'), $keyring->getKeyIDs());
    $this->assertSame(self::SECRET, $keyring->getKey('2026')->openEnvelope());
    $this->assertSame(
      self::SECRET.'!',
      $keyring->getKey('next')->openEnvelope());
    $this->assertNull($keyring->getKey('last'));
  }

  /**
   * @dataProvider provideBadFiles
   */
  public function testABadFileIsRefusedWithoutTellingWhatIsInIt(
    $expect,
    $text,
    $mode = 0640) {

    $this->writeFile($text, $mode);
    $ex = $this->getException();

    $this->assertStringContainsString($expect, $ex->getMessage());
    $this->assertStringContainsString($this->path, $ex->getMessage());
    $this->assertNotSame(array(), $ex->getCommands());

    $told = $ex->getMessage().implode($ex->getCommands()).$ex;
    $this->assertStringNotContainsString(substr(self::SECRET, 0, 8), $told);
  }

  public function provideBadFiles() {
    $key = json_encode(array('k' => self::SECRET));

    return array(
      'every user may read it' => array('open to every user', $key, 0644),
      'every user may write it' => array('open to every user', $key, 0642),
      'it is empty' => array('is not a JSON object', ''),
      'it is cut' => array('is not a JSON object', substr($key, 0, -1)),
      'it is the bare secret' => array('is not a JSON object', self::SECRET),
      'it is a string' => array(
        'is not a JSON object',
        json_encode(self::SECRET),
      ),
      'it is a list' => array(
        'is not a JSON object',
        json_encode(array(self::SECRET)),
      ),
      'it holds no key' => array('is not a JSON object', '{}'),
      'it holds three keys' => array(
        'holds 3 keys',
        json_encode(array_fill_keys(array('a', 'b', 'c'), self::SECRET)),
      ),
      'a secret is short' => array(
        'at least 32 characters',
        json_encode(array('k' => substr(self::SECRET, 0, 31))),
      ),
      'a secret is no string' => array(
        'at least 32 characters',
        json_encode(array('k' => array(self::SECRET))),
      ),
      'a key ID has a space' => array(
        'has a key ID',
        json_encode(array('a b' => self::SECRET)),
      ),
    );
  }

  public function testTheFileMustBeThereUnderItsWholePath() {
    unlink($this->path);
    $this->assertStringContainsString(
      'does not exist',
      $this->getException()->getMessage());

    $this->path = 'keys.json';
    $this->assertStringContainsString(
      'not absolute',
      $this->getException()->getMessage());
  }

  private function getException() {
    try {
      GantryKeyring::newFromFile($this->path);
    } catch (GantrySetupException $ex) {
      return $ex;
    }
    $this->fail('The file was accepted.');
  }

  public function testWhereTheKeysComeFromIsNeverInDoubt() {
    $this->writeFile(json_encode(array('file' => self::SECRET)));
    $keys = array('option' => self::SECRET);

    $this->assertSame(
      array('file'),
      $this->getKeyIDsFromConfig($this->path, null));
    $this->assertSame(
      array('option'),
      $this->getKeyIDsFromConfig(null, $keys));
    $this->assertStringContainsString(
      'Both "gantry.key-file" and "gantry.keys"',
      $this->getKeyIDsFromConfig($this->path, $keys));
    $this->assertStringContainsString(
      'There are no keys',
      $this->getKeyIDsFromConfig(null, null));
    $this->assertStringContainsString(
      'The value of "gantry.keys" is not a JSON object',
      $this->getKeyIDsFromConfig(null, self::SECRET));
  }

  private function getKeyIDsFromConfig($path, $keys) {
    $env = PhabricatorEnv::beginScopedEnv();
    $env->overrideEnvConfig('gantry.key-file', $path);
    $env->overrideEnvConfig('gantry.keys', $keys);

    try {
      return GantryKeyring::newFromConfig()->getKeyIDs();
    } catch (GantrySetupException $ex) {
      return $ex->getMessage();
    }
  }

}
