-- The worker tables of a Phorge, in the shape that bin/storage gives them.

CREATE TABLE worker_activetask (
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

CREATE TABLE worker_archivetask (
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

CREATE TABLE worker_taskdata (
  id int unsigned NOT NULL AUTO_INCREMENT,
  data longtext NOT NULL,
  PRIMARY KEY (id)
) ENGINE=InnoDB;

CREATE TABLE lisk_counter (
  counterName varchar(32) NOT NULL,
  counterValue bigint unsigned NOT NULL,
  PRIMARY KEY (counterName)
) ENGINE=InnoDB;
