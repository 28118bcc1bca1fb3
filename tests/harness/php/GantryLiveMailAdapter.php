<?php

/**
 * Delivers mail into a file, one JSON object a line, so that a test can read
 * what would have been sent. A recipient whose address begins with "permanent"
 * or "temporary" fails that way.
 */
final class GantryLiveMailAdapter extends PhabricatorMailAdapter {

  const ADAPTERTYPE = 'gantry-live';

  public function getSupportedMessageTypes() {
    return array(PhabricatorMailEmailMessage::MESSAGETYPE);
  }

  protected function validateOptions(array $options) {
    PhutilTypeSpec::checkMap($options, array());
  }

  public function newDefaultOptions() {
    return array();
  }

  public function sendMessage(PhabricatorMailExternalMessage $message) {
    $to = array();
    foreach ($message->getToAddresses() as $address) {
      $to[] = (string)$address;
      switch (head(explode('@', $address->getAddress()))) {
        case 'permanent':
          throw new PhabricatorMetaMTAPermanentFailureException(
            pht('The address is no more.'));
        case 'temporary':
          throw new Exception(pht('The mail server is busy.'));
      }
    }

    $headers = array();
    foreach ($message->getHeaders() as $header) {
      $headers[] = $header->getName().': '.$header->getValue();
    }

    $mail = array(
      'from' => (string)$message->getFromAddress(),
      'to' => $to,
      'subject' => $message->getSubject(),
      'headers' => $headers,
      'text' => $message->getTextBody(),
      'html' => $message->getHTMLBody(),
    );
    $root = dirname(phutil_get_library_root('phabricator'));
    file_put_contents(
      $root.'/mails',
      phutil_json_encode($mail)."\n",
      FILE_APPEND);
  }

}
