<?php

/**
 * Compares the map of a libphutil library with the symbols in its files and
 * prints what differs, one line each. PHP's own tokenizer reads the files, so
 * that no parser has to be built first.
 *
 *   librarymap.php <root of the library>
 */

list(, $root) = $argv;

function phutil_register_library_map(array $map) {
  $GLOBALS['committed'] = $map;
}
require $root.'/__phutil_library_map__.php';

// A class at the depth of the file, with all that it extends and implements,
// or a function.
function read_symbols($path) {
  $tokens = array();
  foreach (PhpToken::tokenize(file_get_contents($path)) as $token) {
    if (!$token->isIgnorable()) {
      $tokens[] = $token;
    }
  }

  $symbols = array();
  $depth = 0;
  foreach ($tokens as $ii => $token) {
    if ($token->is(array('{', T_CURLY_OPEN, T_DOLLAR_OPEN_CURLY_BRACES))) {
      $depth++;
    } else if ($token->is('}')) {
      $depth--;
    } else if (!$depth && $token->is(array(T_CLASS, T_INTERFACE, T_TRAIT))) {
      $parents = array();
      for ($jj = $ii + 2; !$tokens[$jj]->is('{'); $jj++) {
        if ($tokens[$jj]->is(T_STRING)) {
          $parents[] = $tokens[$jj]->text;
        }
      }
      $symbols[] = array('class', $tokens[$ii + 1]->text, $parents);
    } else if (!$depth && $token->is(T_FUNCTION)) {
      if ($tokens[$ii + 1]->is(T_STRING)) {
        $symbols[] = array('function', $tokens[$ii + 1]->text, null);
      }
    }
  }

  return $symbols;
}

$found = array('class' => array(), 'function' => array(), 'xmap' => array());
$files = new RecursiveIteratorIterator(
  new RecursiveDirectoryIterator($root, FilesystemIterator::SKIP_DOTS));
foreach ($files as $file) {
  $path = substr($file->getPathname(), strlen($root) + 1);
  // As libphutil: files in the root are not part of the library.
  if (!strpos($path, '/') || $file->getExtension() !== 'php') {
    continue;
  }
  foreach (read_symbols($file->getPathname()) as $symbol) {
    list($type, $name, $parents) = $symbol;
    $found[$type][$name] = $path;
    if ($parents) {
      $found['xmap'][$name] = count($parents) > 1 ? $parents : $parents[0];
    }
  }
}

foreach ($found as $type => $symbols) {
  $names = $symbols + $committed[$type];
  ksort($names);
  foreach ($names as $name => $_) {
    $is = json_encode($symbols[$name] ?? null, JSON_UNESCAPED_SLASHES);
    $map = json_encode($committed[$type][$name] ?? null, JSON_UNESCAPED_SLASHES);
    if ($is !== $map) {
      echo "{$type} {$name}: the files say {$is}, the map says {$map}\n";
    }
  }
}
