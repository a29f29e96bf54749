# Terraform 1.9: the validation of a variable may refer to other variables. The user of the module configures the provider.
terraform {
  required_version = ">= 1.9.0"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.0.0, < 7.0.0"
    }
  }
}
