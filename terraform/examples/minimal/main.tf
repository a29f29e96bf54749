# The minimum: buckets, a database, an EMR Serverless application. The account's administrators can start jobs; other users need the caller role
# (see ../complete).

terraform {
  required_version = ">= 1.9.0"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.19.0, < 7.0.0"
    }
  }
}

provider "aws" {}

module "compactor" {
  source = "../../"

  name     = "compactor-dev"
  database = { name = "school" }
}

output "compactor_yaml" {
  description = "The first part of compactor.yaml; add `tables:`."
  value       = module.compactor.compactor_yaml
}
