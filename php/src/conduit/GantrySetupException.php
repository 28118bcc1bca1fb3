<?php

/**
 * Something that an administrator has to mend before Gantry can work. The
 * message says what it is.
 */
final class GantrySetupException extends Exception {}
