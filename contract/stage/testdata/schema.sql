-- The tables of the tests of a stage: those of the queue, and some of an
-- application that does not exist.

CREATE TABLE config.config_entry (
  id int unsigned NOT NULL AUTO_INCREMENT,
  phid varbinary(64) NOT NULL,
  namespace varchar(64) NOT NULL,
  configKey varchar(64) NOT NULL,
  value longtext NOT NULL,
  isDeleted tinyint(1) NOT NULL,
  dateCreated int unsigned NOT NULL,
  dateModified int unsigned NOT NULL,
  PRIMARY KEY (id)
) ENGINE=InnoDB;

CREATE TABLE acme.acme_thing (
  id int unsigned NOT NULL AUTO_INCREMENT,
  phid varbinary(64) NOT NULL,
  name varchar(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  mail varchar(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci DEFAULT NULL,
  bytes longblob NOT NULL,
  flags tinyint(1) NOT NULL,
  size bigint unsigned NOT NULL DEFAULT 7,
  dateCreated int unsigned NOT NULL,
  PRIMARY KEY (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE acme.acme_edge (
  src varbinary(64) NOT NULL,
  dst varbinary(64) NOT NULL
) ENGINE=InnoDB;

CREATE TABLE worker.worker_activetask (
  id int unsigned NOT NULL,
  taskClass varchar(64) NOT NULL,
  leaseOwner varchar(64) DEFAULT NULL,
  leaseExpires int unsigned DEFAULT NULL,
  failureCount int unsigned NOT NULL,
  dataID int unsigned NOT NULL,
  failureTime int unsigned DEFAULT NULL,
  priority int unsigned NOT NULL,
  objectPHID varbinary(64) DEFAULT NULL,
  dateCreated int unsigned NOT NULL,
  dateModified int unsigned NOT NULL,
  containerPHID varbinary(64) DEFAULT NULL,
  PRIMARY KEY (id),
  KEY leaseExpires (leaseExpires),
  KEY key_failuretime (failureTime),
  KEY taskClass (taskClass),
  KEY key_owner (leaseOwner, priority, id),
  KEY key_object (objectPHID),
  KEY key_container (containerPHID)
) ENGINE=InnoDB;

CREATE TABLE worker.worker_archivetask (
  id int unsigned NOT NULL,
  taskClass varchar(64) NOT NULL,
  leaseOwner varchar(64) DEFAULT NULL,
  leaseExpires int unsigned DEFAULT NULL,
  failureCount int unsigned NOT NULL,
  dataID int unsigned NOT NULL,
  result int unsigned NOT NULL,
  duration bigint unsigned NOT NULL,
  dateCreated int unsigned NOT NULL,
  dateModified int unsigned NOT NULL,
  priority int unsigned NOT NULL,
  objectPHID varbinary(64) DEFAULT NULL,
  archivedEpoch int unsigned DEFAULT NULL,
  containerPHID varbinary(64) DEFAULT NULL,
  PRIMARY KEY (id),
  KEY dateCreated (dateCreated),
  KEY key_modified (dateModified),
  KEY key_object (objectPHID),
  KEY key_container (containerPHID)
) ENGINE=InnoDB;

CREATE TABLE worker.worker_taskdata (
  id int unsigned NOT NULL AUTO_INCREMENT,
  data longtext NOT NULL,
  PRIMARY KEY (id)
) ENGINE=InnoDB;

CREATE TABLE worker.lisk_counter (
  counterName varchar(32) NOT NULL,
  counterValue bigint unsigned NOT NULL,
  PRIMARY KEY (counterName)
) ENGINE=InnoDB;
