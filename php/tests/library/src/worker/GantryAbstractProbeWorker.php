<?php

abstract class GantryAbstractProbeWorker extends PhabricatorWorker {}
