<?php

/**
 * A file that a request keeps locked, so that another one on the same host can
 * say whether it is over: the lock goes with the request, however that ends.
 * The number of its process would say less, because php-fpm uses a process for
 * one request after another.
 */
final class GantryRequestFile extends Phobject {

  private $path;
  private $handle;
  private $name = '';

  /**
   * @return GantryRequestFile Locked until the object goes, unless its name is
   *   empty.
   */
  public static function newLocked() {
    $file = new self();

    $place = self::getPlace();
    $random = bin2hex(random_bytes(8));
    $path = self::getPath($random);

    // A program that a task starts must not inherit the lock.
    $handle = ($place === null) ? false : @fopen($path, 'xe');
    if (!$handle) {
      return $file;
    }
    $file->path = $path;
    $file->handle = $handle;

    // Nobody else may lock it.
    if (chmod($path, 0600) && flock($handle, LOCK_EX | LOCK_NB)) {
      $file->name = $place.'.'.$random;
    }
    return $file;
  }

  public function __destruct() {
    if ($this->handle) {
      @unlink($this->path);
      fclose($this->handle);
    }
  }

  /**
   * @return string Name of the file, at most 25 characters. Empty where no file
   *   can be locked.
   */
  public function getName() {
    return $this->name;
  }

  /**
   * @param string $name Name of the file of a request.
   * @return bool|null The request is over. Null when that can not be known
   *   here.
   */
  public static function isOver($name) {
    $parts = explode('.', $name);
    if (count($parts) !== 2 || $parts[0] !== self::getPlace()) {
      return null;
    }

    $path = self::getPath($parts[1]);
    $handle = @fopen($path, 're');
    if (!$handle) {
      clearstatcache(true, $path);
      return file_exists($path) ? null : true;
    }

    $is_over = flock($handle, LOCK_SH | LOCK_NB);
    if ($is_over) {
      // The request had no chance to do this.
      @unlink($path);
    }
    fclose($handle);
    return $is_over;
  }

  private static function getPath($random) {
    return sys_get_temp_dir().'/gantry-request-'.$random;
  }

  /**
   * One directory on one host, and one user, whose requests can open the files
   * of one another. The name of the host tells apart the copies of one machine.
   */
  private static function getPlace() {
    $directory = @stat(sys_get_temp_dir());
    if (!$directory) {
      return null;
    }

    $machine = trim((string)@file_get_contents('/etc/machine-id'));
    $parts = array(
      $machine,
      php_uname('n'),
      posix_geteuid(),
      $directory['dev'],
      $directory['ino'],
    );
    return substr(hash('sha256', implode(' ', $parts)), 0, 8);
  }

}
